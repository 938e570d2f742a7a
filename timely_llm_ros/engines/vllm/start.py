"""Starts vLLM, whichever scheduler it has. Importing this module imports no vLLM."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.vllm.model_sizes import kv_bytes, longest_context

if TYPE_CHECKING:
    from timely_llm_ros.engines.vllm.config import VllmConfig
    from timely_llm_ros.engines.vllm.model_folder import ModelFolder

_THREADS_BIND = 'VLLM_CPU_OMP_THREADS_BIND'
_SOCKETS = 'VLLM_RPC_BASE_PATH'


def engine_arguments(config: VllmConfig, model: ModelFolder, *, slots: int) -> dict[str, Any]:
    """Return keyword arguments of vLLM's ``AsyncEngineArgs``; imports vLLM.

    The scheduler and ``config.vllm`` are not among them.

    Args:
        config: The engine's options.
        model: What is in the model's folder.
        slots: Most requests that vLLM's worker keeps at a time.

    Raises:
        ModelLoadError: An adapter does not fit.
    """
    from vllm.platforms import current_platform

    kv_tokens, block_size = config.kv_tokens, config.block_size
    arguments: dict[str, Any] = {
        **model.arguments(),
        'dtype': config.dtype,
        'max_num_seqs': slots,
        'max_num_batched_tokens': max(config.chunk, slots),
        'max_model_len': min(kv_tokens - block_size, longest_context(model.base)),
        'block_size': block_size,
        'num_gpu_blocks_override': kv_tokens // block_size + 1,
        'enable_prefix_caching': True,
        'structured_outputs_config': {'backend': 'guidance'},
        'disable_log_stats': True,
        'seed': 0,
    }
    if current_platform.is_cpu():
        # Compiling takes longer than it ever saves on a model that a CPU is fast enough for.
        pool_bytes = kv_bytes(model.base, kv_tokens + block_size, config.dtype)
        arguments |= {'enforce_eager': True, 'kv_cache_memory_bytes': pool_bytes}
    return arguments


def start_llm(arguments: dict[str, Any]) -> Any:
    """Start vLLM; its processes never see the terminal's Ctrl-C."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    workers = int(arguments.get('pipeline_parallel_size', 1))
    workers *= int(arguments.get('tensor_parallel_size', 1))
    unbound = workers > 1 and _THREADS_BIND not in os.environ
    if unbound:
        # Without it vLLM wants a NUMA node for each worker on a CPU.
        os.environ[_THREADS_BIND] = 'nobind'
    # The new processes inherit this thread's signal mask.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if unbound:
            del os.environ[_THREADS_BIND]


async def prepare_llm(llm: Any, model: ModelFolder) -> None:
    """Load a model's adapters, and run the trial step that vLLM leaves out on CPUs.

    Without that step the first one of a pipeline of stages fails where nothing is compiled.

    Raises:
        ModelLoadError: vLLM refuses an adapter.
    """
    await model.load(llm)
    if llm.vllm_config.parallel_config.pipeline_parallel_size > 1:
        await llm.collective_rpc('execute_dummy_batch')


def hear_no_more(llm: Any) -> None:
    """Have vLLM's client, on its loop, not report the end of its engine core as an error."""
    if llm.output_handler is not None:
        llm.output_handler.cancel()


def stop_llm(llm: Any) -> None:
    """End vLLM."""
    with suppress(Exception):
        llm.shutdown()


def prepare_environment(threads: int) -> None:
    """Set the environment variables that vLLM reads, unless the user has; threads always."""
    for name, value in (
        ('HF_HUB_OFFLINE', '1'),
        ('VLLM_NO_USAGE_STATS', '1'),
        ('VLLM_LOGGING_LEVEL', 'ERROR'),
        ('VLLM_WORKER_MULTIPROC_METHOD', 'spawn'),
    ):
        os.environ.setdefault(name, value)
    if _SOCKETS not in os.environ:
        # vLLM never removes its sockets, so they get a folder that goes with this process.
        folder = os.environ[_SOCKETS] = tempfile.mkdtemp(prefix='timely-vllm-')
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ['OMP_NUM_THREADS'] = str(threads)
