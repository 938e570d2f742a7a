"""Tokens that the grammar leaves no choice about take no step of the model.

They are added to what the worker sampled, so that vLLM takes them as if they had been. The next
step computes them together with the latest token, as it would a part of a prompt.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from timely_llm_ros.engines.vllm.plugin.contract import WORKER
from timely_llm_ros.engines.vllm.plugin.kept_grammar import KeptGrammar

if TYPE_CHECKING:
    from vllm.v1.core.sched.scheduler import Scheduler

    _Vllm = Scheduler
else:
    _Vllm = object

_logger = logging.getLogger(__name__)

_BATCH_NAMES = ('num_tokens_no_spec', 'token_ids_cpu', 'is_token_ids', 'req_id_to_index')
"""What the worker's part needs of vLLM's ``InputBatch``."""


class FastForward(_Vllm):  # type: ignore[misc, valid-type]
    """The part of the scheduler that fast-forwards.

    Attributes:
        _forwarded: Tokens of requests that their workers do not know of yet.
    """

    def _prepare_forwarding(self, max_running: int, stages: int) -> None:
        """Fast-forward if this vLLM can, and say why where it cannot."""
        self._forwarded: dict[str, list[int]] = {}
        # No running generation's part of a step is ever cut.
        self._most_forwarded = self.max_num_scheduled_tokens // max_running - 1
        asynchronous = isinstance(self, AsyncScheduler)
        problem = find_problem(self.vllm_config, stages, asynchronous=asynchronous)
        if problem:
            self._most_forwarded = 0
            _logger.warning('fast-forward is off: %s', problem)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Let a step's order carry what its workers must learn of; new requests come with it."""
        scheduled = super().schedule(*args, **kwargs)
        if self._forwarded:
            known = set(scheduled.scheduled_cached_reqs.req_ids)
            told = [name for name in self._forwarded if name in scheduled.num_scheduled_tokens]
            tokens = {name: self._forwarded.pop(name) for name in told}
            scheduled.forwarded = {name: tokens[name] for name in told if name in known}
        return scheduled

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Take a step's tokens and those that must follow."""
        if self._most_forwarded <= 0:
            return super().update_from_output(scheduler_output, model_runner_output)
        self._forward(scheduler_output, model_runner_output)
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        for group in outputs.values():
            for out in group.outputs:
                if len(out.new_token_ids) > 1 and out.finish_reason is None:
                    self._forwarded[out.request_id] = out.new_token_ids[1:]
        return outputs

    def _forward(self, scheduled: Any, result: Any) -> None:
        """Add to a step's tokens those that must follow."""
        sampled, place_of = result.sampled_token_ids, result.req_id_to_index
        for request_id in scheduled.num_scheduled_tokens if sampled else ():
            request, tokens = self.requests.get(request_id), sampled[place_of[request_id]]
            if request is None or request.is_finished() or len(tokens) != 1:
                continue
            structured = request.structured_output_request
            grammar = None if structured is None else structured.grammar
            if isinstance(grammar, KeptGrammar) and request.sampling_params.logprobs is None:
                forced = grammar.forward(request_id, tokens[0], self._most_forwarded)
                if forced:
                    sampled[place_of[request_id]] = [*tokens, *forced]


def find_problem(config: Any, stages: int, *, asynchronous: bool) -> str:
    """Return why vLLM, as it is configured, cannot fast-forward; empty where it can.

    Args:
        config: vLLM's.
        stages: Among how many steps the running generations are divided.
        asynchronous: Whether its scheduler is the asynchronous one.
    """
    extension = config.parallel_config.worker_extension_cls
    if extension != WORKER:
        return f'worker_extension_cls {extension!r}: expected {WORKER!r}'
    if asynchronous or config.scheduler_config.async_scheduling:
        return 'vLLM schedules a step before the latest token is known: async_scheduling'
    if stages > 1:
        return 'several steps are under way at once: pipeline_parallel_size or micro_batches'
    if config.use_v2_model_runner:
        return "vLLM's model runner V2 keeps tokens in another way: VLLM_USE_V2_MODEL_RUNNER"
    for name in ('speculative_config', 'kv_transfer_config'):
        if getattr(config, name) is not None:
            return f'it was not tested with a {name}'
    batch = importlib.import_module('vllm.v1.worker.gpu_input_batch').InputBatch
    missing = [
        name
        for name in _BATCH_NAMES
        if name not in batch.__init__.__code__.co_names and not hasattr(batch, name)
    ]
    return f'InputBatch of this vLLM has no {missing}' if missing else ''
