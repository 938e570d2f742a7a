"""The vLLM engine without our scheduler inside: for every vLLM that the plug-in does not fit.

vLLM schedules as it likes what it is given, and it is given only what is to run: a request for
each segment, by the same code that serves from servers elsewhere. Its prefix cache keeps the KV.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.engine import EngineInfo
from timely_llm_ros.engines.model_files import SHIPPED_MODEL, find_model
from timely_llm_ros.engines.servers_engine import ServersEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from timely_llm_ros.engines.completions import Completions, ServedModel
    from timely_llm_ros.engines.engine import GenerationRequest
    from timely_llm_ros.scheduling.options import SchedulingOptions
    from timely_llm_ros.scheduling.scheduler import ServingMode


@dataclass(frozen=True, slots=True)
class _Patience:
    """A vLLM of our own: its start says itself when it fails, and its death is seen at once."""

    start_limit_s: float = 3600.0
    health_period_s: float = 0.2
    give_up_s: float = 120.0
    priority: bool = False


class StockVllmEngine(ServersEngine):
    """Generates with vLLM through its public interface alone.

    If vLLM's engine core dies it is started anew, and generations go on from their token ids.

    Args:
        model_path: A folder, or the name of a shipped model.
        mode: The serving mode.
        policy: Name of the policy.
        max_running: Most generations that vLLM is given at once.
        max_suspended: Not used: a suspended generation takes no place in vLLM.
        max_kv_tokens: vLLM's KV pool, rounded down to blocks.
        block_size: Tokens of a KV block; a multiple of 32 on a CPU.
        prefill_chunk: Most tokens computed in one step.
        dtype: ``auto``, ``float32``, ``bfloat16`` or ``float16``.
        threads: CPU threads of a step.
        sampling: Returns a request's keyword arguments of vLLM's ``SamplingParams``; greedy
            without. A seed holds for a segment, not for a whole plan.
        scheduling: Further options of the scheduler.
        vllm: Further keyword arguments of vLLM's ``AsyncEngineArgs``.
        measure: Time vLLM at start, which takes some seconds; it is ``EngineInfo.times``.
        micro_batches: Not used: vLLM fills its steps by itself.

    Raises:
        ConfigurationError: An option is out of range.
    """

    def __init__(
        self,
        *,
        model_path: str = SHIPPED_MODEL,
        mode: ServingMode = 'segmented',
        policy: str = 'utility',
        max_running: int = 8,
        max_suspended: int = 248,
        max_kv_tokens: int = 32768,
        block_size: int = 32,
        prefill_chunk: int = 2048,
        dtype: str = 'float32',
        threads: int = 1,
        sampling: Callable[[GenerationRequest], Mapping[str, Any]] | None = None,
        scheduling: SchedulingOptions | None = None,
        vllm: Mapping[str, Any] | None = None,
        measure: bool = False,
        micro_batches: int = 0,
    ) -> None:
        super().__init__(
            model_path=find_model(model_path),
            mode=mode,
            policy=policy,
            max_running=max_running,
            max_kv_tokens=max_kv_tokens // block_size * block_size,
            scheduling=scheduling,
            patience=_Patience(),
            sampling=sampling,
            measure=measure,
        )
        self._block_size, self._chunk = block_size, prefill_chunk
        self._dtype, self._threads = dtype, threads
        self._more = dict(vllm or {})

    def _connect(self) -> Sequence[Completions]:
        from timely_llm_ros.engines.vllm_completions import VllmCompletions
        from timely_llm_ros.engines.vllm_start import prepare_environment

        prepare_environment(self._threads)
        return [VllmCompletions(self._arguments, self._more)]

    def _arguments(self) -> Mapping[str, Any]:
        from timely_llm_ros.engines.vllm_start import engine_arguments
        from timely_llm_ros.engines.vllm_text import context_limit

        return engine_arguments(
            self._model_path,
            dtype=self._dtype,
            kv_tokens=self._max_kv_tokens,
            block_size=self._block_size,
            chunk=self._chunk,
            slots=self._max_running,
            context_limit=min(
                self._max_kv_tokens - self._block_size, context_limit(self._model_path)
            ),
        )

    def _describe(self, served: ServedModel, vocabulary: int, load_s: float) -> EngineInfo:
        from timely_llm_ros.engines.vllm_text import count_parameters

        parameters = count_parameters(self._model_path)
        return EngineInfo(
            'vllm',
            self._model_path,
            parameters,
            self._dtype,
            vocabulary,
            self._max_kv_tokens,
            load_s,
        )
