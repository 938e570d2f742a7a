"""What workers of vLLM must know of tokens that the scheduler appends without a step.

A worker keeps the tokens that it sampled itself and learns of no others, except where a request
begins anew. So a step's order carries them, and they are noted before the step is laid out.
vLLM's workers import this module by ``worker_extension_cls``.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.sample.rejection_sampler import RejectionSampler
from vllm.v1.worker.gpu_model_runner import GPUModelRunner


class ForwardedTokens:
    """A worker that learns of appended tokens."""


def take_forwarded(runner: Any, forwarded: dict[str, list[int]]) -> None:
    """Append tokens to those that a model runner has of its requests."""
    batch = runner.input_batch
    for request_id, tokens in forwarded.items():
        runner.requests[request_id].output_token_ids.extend(tokens)
        place = batch.req_id_to_index.get(request_id)
        if place is not None:
            begin = int(batch.num_tokens_no_spec[place])
            end = begin + len(tokens)
            batch.token_ids_cpu[place, begin:end] = tokens
            batch.is_token_ids[place, begin:end] = True
            batch.num_tokens_no_spec[place] = end


_update_states = GPUModelRunner._update_states  # noqa: SLF001  vLLM's, kept in step by the contract


def _update(self: Any, scheduler_output: Any) -> Any:
    forwarded = getattr(scheduler_output, 'forwarded', None)
    if forwarded:
        take_forwarded(self, forwarded)
    return _update_states(self, scheduler_output)


GPUModelRunner._update_states = _update  # noqa: SLF001  as above


class Drafting:
    """In the place of a configuration for drafts while a step that has some is laid out."""


_prepare_inputs = GPUModelRunner._prepare_inputs  # noqa: SLF001  as above


def _prepare(self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
    """Let a step that has drafts be laid out as vLLM's own speculative decoding would.

    vLLM asks for its configuration there alone, and makes what verifies drafts only with one.
    """
    if not scheduler_output.scheduled_spec_decode_tokens or self.speculative_config is not None:
        return _prepare_inputs(self, scheduler_output, *args, **kwargs)
    if not hasattr(self, 'rejection_sampler'):
        self.rejection_sampler = RejectionSampler(self.sampler, None, self.device)
    self.speculative_config = Drafting
    try:
        return _prepare_inputs(self, scheduler_output, *args, **kwargs)
    finally:
        self.speculative_config = None


GPUModelRunner._prepare_inputs = _prepare  # noqa: SLF001  as above
