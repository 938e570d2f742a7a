"""Into how many micro-batches a pipeline's tokens are cut where a first token is due.

More micro-batches make each one's way through the pipeline shorter, but a prompt that is shared out
between them has its first token with the last. :func:`count_in_time` takes the shortest round of
those that keep the tightest deadline.

Times are in seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from timely_llm_ros.scheduling.microbatch import (
    first_token_s,
    least_of,
    require_numbers,
    round_s,
)

if TYPE_CHECKING:
    from timely_llm_ros.scheduling.microbatch import PipelineCosts


class TimedCount(NamedTuple):
    """A number of micro-batches and what comes of it."""

    micro_batches: int
    """How many micro-batches."""
    round_s: float
    """How long a round takes."""
    first_token_s: float
    """When the prefill's first token is there, at worst."""
    in_time: bool
    """Whether that is within the deadline."""


def prefill_first_token_s(
    stages: int,
    micro_batches: int,
    decode_tokens: int,
    prefill_tokens: int,
    costs: PipelineCosts,
    *,
    urgent: bool,
    return_s: float = 0.0,
    context_tokens: float = 0.0,
) -> float:
    """Return when a prefill that has just come has its first token, at worst.

    It waits for the next micro-batch. An urgent one is in that as a whole; others are spread
    over all micro-batches of a round, and the last of them has the token.

    Args:
        stages: Stages of the pipeline.
        micro_batches: Micro-batches in a round.
        decode_tokens: Generations that decode.
        prefill_tokens: Tokens of the prefill, and of all that is shared out with it.
        costs: What a micro-batch costs.
        urgent: Whether the prefill goes before others, as in ``TokenBudget``.
        return_s: The sampled token's way back to the first stage.
        context_tokens: Tokens of all contexts that a round attends to.
    """
    chunks = 1 if urgent else micro_batches
    size = -(-decode_tokens // micro_batches) + -(-prefill_tokens // chunks)
    usual = decode_tokens if urgent else decode_tokens + prefill_tokens
    period_s = round_s(
        stages, micro_batches, usual, costs, return_s=return_s, context_tokens=context_tokens
    )
    compute_s = costs.compute_s(size) + costs.attend_s(context_tokens / micro_batches)
    way_s = first_token_s(stages, compute_s, costs.transfer_s(size))
    return chunks * period_s / micro_batches + way_s + return_s


def count_in_time(
    stages: int,
    most: int,
    decode_tokens: int,
    prefill_tokens: int,
    deadline_s: float,
    costs: PipelineCosts,
    *,
    urgent: bool = True,
    return_s: float = 0.0,
    context_tokens: float = 0.0,
) -> TimedCount:
    """Return the number with the shortest round among those that meet the tightest deadline.

    Where none does, the one whose first token comes first.

    Args:
        stages: Stages of the pipeline.
        most: The most micro-batches.
        decode_tokens: Generations that decode.
        prefill_tokens: Tokens of the prefill whose deadline is the tightest of all live ones, and
            of all that is shared out with it.
        deadline_s: Time left until its first token is due.
        costs: What a micro-batch costs.
        urgent: Whether that prefill goes before others.
        return_s: The sampled token's way back to the first stage.
        context_tokens: Tokens of all contexts that a round attends to.

    Raises:
        ConfigurationError: A number is out of range.
    """
    tokens = decode_tokens + prefill_tokens
    require_numbers(stages, most, tokens)
    choices = []
    for count in range(1, max(1, min(most, tokens)) + 1):
        first_s = prefill_first_token_s(
            stages,
            count,
            decode_tokens,
            prefill_tokens,
            costs,
            urgent=urgent,
            return_s=return_s,
            context_tokens=context_tokens,
        )
        period_s = round_s(
            stages, count, tokens, costs, return_s=return_s, context_tokens=context_tokens
        )
        choices.append(TimedCount(count, period_s, first_s, first_s <= deadline_s))
    in_time = [choice for choice in choices if choice.in_time]
    if in_time:
        best = least_of((choice.micro_batches, choice.round_s) for choice in in_time)
    else:
        best = least_of((choice.micro_batches, choice.first_token_s) for choice in choices)
    return choices[best - 1]
