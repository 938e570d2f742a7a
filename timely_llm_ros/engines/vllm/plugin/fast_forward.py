"""Tokens that the grammar leaves no choice about, or that were guessed, take no step of the model.

What must follow is added to what the worker sampled, so that vLLM takes it as if it had been. The
next step computes it together with the latest token, as it would a part of a prompt.

What may follow, by other plans of late, is computed behind that as vLLM's own speculative decoding
would, and the worker says how much of it came true. vLLM's drafts come from its workers and need
its whole configuration for them; these are the scheduler's, and steps without any are as ever.
"""

from __future__ import annotations

import importlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from vllm.sampling_params import SamplingType
from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from timely_llm_ros.engines.vllm.plugin.contract import WORKER
from timely_llm_ros.engines.vllm.plugin.drafts import PlanDrafts
from timely_llm_ros.engines.vllm.plugin.kept_grammar import KeptGrammar
from timely_llm_ros.engines.vllm.plugin.kv_spill import new_blocks

if TYPE_CHECKING:
    from vllm.v1.core.sched.scheduler import Scheduler

    from timely_llm_ros.engines.texts import TokenTexts
    from timely_llm_ros.engines.vllm.plugin.core import FreezeCore

    _Vllm = Scheduler
else:
    _Vllm = object

_logger = logging.getLogger(__name__)

_BATCH_NAMES = ('num_tokens_no_spec', 'token_ids_cpu', 'is_token_ids', 'req_id_to_index')
"""What the worker's part needs of vLLM's ``InputBatch``."""

_MOST_DRAFTED = 32
"""Most tokens of a draft."""

_MOST_DRAFTING = 64
"""Most requests of a step with drafts; vLLM computes the masks of much larger ones without."""

_DRAFT_NAMES = {'_prepare_inputs': 'speculative_config', '_sample': 'rejection_sampler'}
"""What the worker's part needs for drafts, of which methods of vLLM's ``GPUModelRunner``."""


class FastForward(_Vllm):  # type: ignore[misc, valid-type]
    """The part of the scheduler that fast-forwards and drafts.

    Attributes:
        _forwarded: Tokens of requests that their workers do not know of yet.
    """

    _core: FreezeCore
    _texts: TokenTexts

    def _prepare_forwarding(self, max_running: int, stages: int) -> None:
        """Fast-forward if this vLLM can, and say why where it cannot."""
        self._forwarded: dict[str, list[int]] = {}
        self._drafts = PlanDrafts(self._texts)
        # No running generation's part of a step is ever cut.
        self._most_forwarded = self.max_num_scheduled_tokens // max_running - 1
        asynchronous = isinstance(self, AsyncScheduler)
        problem = find_problem(self.vllm_config, stages, asynchronous=asynchronous)
        if problem:
            self._most_forwarded = 0
            _logger.warning('fast-forward is off: %s', problem)
        elif problem := find_draft_problem():
            _logger.warning('drafts are off: %s', problem)
        self._most_drafting = 0 if problem else _MOST_DRAFTING

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Let a step's order carry what its workers must learn of; new requests come with it."""
        if self.running:
            self._draft(self.running)
        scheduled = super().schedule(*args, **kwargs)
        if self._forwarded:
            known = set(scheduled.scheduled_cached_reqs.req_ids)
            told = [name for name in self._forwarded if name in scheduled.num_scheduled_tokens]
            tokens = {name: self._forwarded.pop(name) for name in told}
            scheduled.forwarded = {name: tokens[name] for name in told if name in known}
        return scheduled

    def get_grammar_bitmask(self, scheduler_output: Any) -> Any:
        """Compute the masks behind drafts too."""
        self._drafts.catch_up()
        drafted = scheduler_output.scheduled_spec_decode_tokens
        if drafted:
            manager = self.structured_output_manager
            rows = self.scheduler_config.max_num_seqs + sum(map(len, drafted.values()))
            masks = manager._grammar_bitmask  # noqa: SLF001  vLLM's, see find_problem
            if masks is None or len(masks) < rows:
                masks = manager.backend.allocate_token_bitmask(rows)
                manager._grammar_bitmask = masks  # noqa: SLF001  as above
            for request_id in drafted:
                self.requests[request_id].structured_output_request.grammar.guess()
        return super().get_grammar_bitmask(scheduler_output)

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Take a step's tokens and those that must follow."""
        if self._most_forwarded <= 0:
            return super().update_from_output(scheduler_output, model_runner_output)
        known = self._forward(scheduler_output, model_runner_output)
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        for group in outputs.values():
            for out in group.outputs:
                if out.request_id in known and out.finish_reason is None:
                    self._forwarded[out.request_id] = out.new_token_ids[known[out.request_id] :]
        return outputs

    def _forward(self, scheduled: Any, result: Any) -> dict[str, int]:
        """Add to a step's tokens those that must follow; return how many of which came before."""
        sampled, place_of = result.sampled_token_ids, result.req_id_to_index
        known: dict[str, int] = {}
        for request_id in scheduled.num_scheduled_tokens if sampled else ():
            request, tokens = self.requests.get(request_id), sampled[place_of[request_id]]
            if request is None or request.is_finished() or not tokens:
                continue
            # vLLM would take all but the first for drafts that came true.
            drafted = scheduled.scheduled_spec_decode_tokens.pop(request_id, ())
            request.num_computed_tokens -= max(0, len(drafted) + 1 - len(tokens))
            structured = request.structured_output_request
            grammar = None if structured is None else structured.grammar
            if isinstance(grammar, KeptGrammar) and request.sampling_params.logprobs is None:
                forced = grammar.forward(request_id, tokens, self._most_forwarded)
                self._drafts.take(request_id, tokens, forced)
                if forced:
                    known[request_id] = len(tokens)
                    sampled[place_of[request_id]] = [*tokens, *forced]
        return known

    def _draft(self, running: list[Any]) -> None:
        """Guess what requests that run will bring, where it is worth it and nothing has to go.

        Beside others' prompts a draft saves no step, because theirs come anyway.
        """
        alone = not self.waiting and not self.kv_holding_waiting
        if not alone or len(running) > self._most_drafting or not all(map(_decodes, running)):
            return
        worth = partial(self._core.draft_costs.worth, len(running))
        for request in running:
            structured = request.structured_output_request
            grammar = None if structured is None else structured.grammar
            if isinstance(grammar, KeptGrammar):
                missing = request.num_tokens - request.num_computed_tokens
                most = min(_MOST_DRAFTED, self._most_forwarded - missing)
                request.spec_token_ids = self._drafts.draft(
                    request.request_id, grammar, most, worth
                )
        groups = len(self.kv_cache_config.kv_cache_groups)
        free = self.kv_cache_manager.block_pool.get_num_free_blocks()
        if new_blocks(running, self.block_size) * groups > free:
            for request in running:
                request.spec_token_ids = []


def is_greedy(request: Any) -> bool:
    """Whether a request of vLLM gets its likeliest tokens, which nobody asks the chances of."""
    parameters = request.sampling_params
    return parameters.sampling_type == SamplingType.GREEDY and parameters.logprobs is None


def _decodes(request: Any) -> bool:
    return is_greedy(request) and not request.is_prefill_chunk


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


def find_draft_problem() -> str:
    """Return why this vLLM cannot verify drafts of its scheduler; empty where it can."""
    runner = importlib.import_module('vllm.v1.worker.gpu_model_runner').GPUModelRunner
    manager = importlib.import_module('vllm.v1.structured_output').StructuredOutputManager
    methods = [(getattr(runner, method, None), name) for method, name in _DRAFT_NAMES.items()]
    methods.append((manager.grammar_bitmask, '_grammar_bitmask'))
    missing = [
        name
        for method, name in methods
        if name not in getattr(getattr(method, '__code__', None), 'co_names', ())
    ]
    return f'this vLLM has no {missing}' if missing else ''
