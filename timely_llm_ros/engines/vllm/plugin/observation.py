"""Puts a robot's answer into a request's context inside vLLM."""

from __future__ import annotations

from typing import Any

from vllm.v1.request import RequestStatus

from timely_llm_ros.engines.vllm.plugin.kept_grammar import KeptGrammar
from timely_llm_ros.errors import InvalidTaskError


def append_observation(request: Any, token_ids: list[int]) -> None:
    """Append a robot's answer; all before it becomes prompt, as in vLLM's sessions.

    Raises:
        InvalidTaskError: The request's grammar does not allow it.
    """
    request.max_tokens -= request.num_output_tokens
    request._output_token_ids.clear()  # noqa: SLF001  vLLM's, kept in step by the contract
    every = request._all_token_ids  # noqa: SLF001  as above
    every.extend(token_ids)
    request.prompt_token_ids = list(every)
    request.num_prompt_tokens = len(request.prompt_token_ids)
    request.update_block_hashes()
    # The worker takes a new prompt only with a new request; the blocks are kept.
    request.status = RequestStatus.WAITING
    if request.structured_output_request is not None:
        grammar = request.structured_output_request.grammar
        take = grammar.observe if isinstance(grammar, KeptGrammar) else grammar.accept_tokens
        if not take(request.request_id, token_ids):
            raise InvalidTaskError('the grammar does not allow it')


def drop_in_flight(request: Any) -> None:
    """Give up the token that is being computed behind a call whose value must come first."""
    request.num_computed_tokens -= request.num_output_placeholders
    request.spec_token_ids = []
    request.drop_stale_output = True
    request.num_stale_output_tokens = request.num_in_flight_tokens
    request.num_output_placeholders = 0
