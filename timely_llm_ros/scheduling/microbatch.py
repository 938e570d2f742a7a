"""Into how many micro-batches a pipeline's tokens are cut.

In a round each running generation gets one token. More micro-batches hide the links' time, fewer
save what a micro-batch costs by itself. Dynamic Micro-Batch Scheduling (preprints 202512.0788,
algorithm 2) takes the number whose first token comes when the first stage has done the round,
which is a sign of balance but not what is wanted. :func:`best_count` takes the number with the
shortest round, :func:`sure_count` leaves algorithm 2's only for a clearly shorter one. Where a
first token is due, see :mod:`timely_llm_ros.scheduling.microbatch_deadline`.

Times are in seconds. A stage computes one micro-batch at a time, a link carries one at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TIE = 1e-12
"""Times that differ by less than this share are equal: rounding must not decide."""

REFILL_SHARE = 0.2
"""How often per round the pipeline has to be filled anew: work comes and goes."""

SURE_GAIN = 0.03
"""A round that is shorter by this share is shorter in spite of what preemptions change."""


class PipelineCosts(Protocol):
    """What a micro-batch costs, by its number of tokens."""

    def compute_s(self, tokens: float) -> float:
        """Return how long one stage computes it."""
        ...

    def transfer_s(self, tokens: float) -> float:
        """Return how long one link carries it."""
        ...

    def occupied_s(self, tokens: float) -> float:
        """Return how long a stage that computes and sends it can begin no other."""
        ...

    def attend_s(self, context_tokens: float) -> float:
        """Return how much longer a stage computes for the contexts that are attended to."""
        ...


@dataclass(frozen=True, slots=True)
class LinearCosts:
    """Costs that are linear in the number of tokens.

    Attributes:
        compute_base_s: Of a micro-batch on a stage: reading the weights, launching kernels.
        compute_token_s: Of each token on a stage.
        transfer_base_s: Of a micro-batch on a link.
        transfer_token_s: Of each token on a link: its hidden state's size over the bandwidth.
        held_share: Share of the transfer for which the sending stage is held up, 0 to 1.
        context_token_s: Of each token of context that a micro-batch attends to, on a stage:
            reading its KV.
    """

    compute_base_s: float
    compute_token_s: float = 0.0
    transfer_base_s: float = 0.0
    transfer_token_s: float = 0.0
    held_share: float = 0.0
    context_token_s: float = 0.0

    def compute_s(self, tokens: float) -> float:
        """Return how long one stage computes so many tokens."""
        return self.compute_base_s + self.compute_token_s * tokens

    def transfer_s(self, tokens: float) -> float:
        """Return how long one link carries so many tokens."""
        return self.transfer_base_s + self.transfer_token_s * tokens

    def occupied_s(self, tokens: float) -> float:
        """Return how long computing and sending so many tokens keeps a stage."""
        return self.compute_s(tokens) + self.held_share * self.transfer_s(tokens)

    def attend_s(self, context_tokens: float) -> float:
        """Return how long attending to so many tokens of context takes a stage."""
        return self.context_token_s * context_tokens


def first_token_s(stages: int, compute_s: float, transfer_s: float) -> float:
    """Return how long one micro-batch takes through the pipeline (eq. 1)."""
    return compute_s * stages + transfer_s * (stages - 1)


def first_stage_s(micro_batches: int, compute_s: float) -> float:
    """Return how long the first stage computes in a round (eq. 2)."""
    return compute_s * micro_batches


def round_s(
    stages: int,
    micro_batches: int,
    tokens: int,
    costs: PipelineCosts,
    *,
    return_s: float = 0.0,
    serial_links: bool = True,
    context_tokens: float = 0.0,
) -> float:
    """Return how long a round takes in the long run, with tokens spread as evenly as can be.

    Either the first stage, a link, or the way of the largest micro-batch through the pipeline and
    back decides; the paper's eq. 2 knows nothing of the link. Contexts are spread as evenly.
    """
    attend_s = costs.attend_s(context_tokens / micro_batches)
    small, larger = divmod(tokens, micro_batches)

    def of_all(cost_s: float, more_s: float) -> float:
        return (micro_batches - larger) * cost_s + larger * more_s

    compute_s, transfer_s = costs.compute_s, costs.transfer_s
    largest = small + (larger > 0)
    stage_s = costs.occupied_s if stages > 1 else compute_s
    busy_s = of_all(stage_s(small), stage_s(largest)) + micro_batches * attend_s
    if serial_links and stages > 1:
        busy_s = max(busy_s, of_all(transfer_s(small), transfer_s(largest)))
    way_s = first_token_s(stages, compute_s(largest) + attend_s, transfer_s(largest))
    return max(busy_s, way_s + return_s)


def least_gap_count(
    stages: int, most: int, tokens: int, costs: PipelineCosts, *, whole: bool = False
) -> int:
    """Return algorithm 2's number: least difference between eq. 1 and eq. 2, the smallest wins.

    Args:
        stages: Stages of the pipeline, and the least number of micro-batches.
        most: The most micro-batches.
        tokens: Tokens of a round; no micro-batch will be empty.
        costs: What a micro-batch costs.
        whole: Whether the size is rounded up to whole tokens; as printed it is not.

    Raises:
        ConfigurationError: A number is out of range.
    """
    require_numbers(stages, most, tokens)
    best, best_gap_s = stages, math.inf
    for count in range(stages, min(most, tokens) + 1):
        size = -(-tokens // count) if whole else tokens / count
        compute_s = costs.compute_s(size)
        way_s = first_token_s(stages, compute_s, costs.transfer_s(size))
        gap_s = abs(way_s - first_stage_s(count, compute_s))
        if gap_s < best_gap_s - TIE * way_s:
            best, best_gap_s = count, gap_s
    return best


def best_count(
    stages: int,
    most: int,
    tokens: int,
    costs: PipelineCosts,
    *,
    return_s: float = 0.0,
    serial_links: bool = True,
    refill_share: float = REFILL_SHARE,
    context_tokens: float = 0.0,
) -> int:
    """Return the number of micro-batches with the shortest round; the smallest of equals.

    Where a link decides, rounds of many numbers last all but equally long, and it is the way of
    one micro-batch through the pipeline that differs: it is lost each time that the pipeline has
    to be filled anew, so it counts as a part of the round.

    Unlike algorithm 2's the number may be below that of the stages: where links decide, a
    micro-batch more can cost more than it hides.

    Args:
        stages: Stages of the pipeline.
        most: The most micro-batches.
        tokens: Tokens of a round; no micro-batch will be empty.
        costs: What a micro-batch costs.
        return_s: The sampled token's way back to the first stage.
        serial_links: Whether a link carries one micro-batch at a time.
        refill_share: How often per round the pipeline is filled anew; 0 for the steady state.
        context_tokens: Tokens of all contexts that a round attends to.

    Raises:
        ConfigurationError: A number is out of range.
    """
    require_numbers(stages, most, tokens)
    if not tokens:
        return min(stages, most)
    cost_s = _round_cost(
        stages, tokens, costs, return_s, serial_links, refill_share, context_tokens
    )
    return least_of((count, cost_s(count)) for count in range(1, min(most, tokens) + 1))


def sure_count(
    stages: int,
    most: int,
    tokens: int,
    costs: PipelineCosts,
    *,
    return_s: float = 0.0,
    context_tokens: float = 0.0,
    margin: float = SURE_GAIN,
) -> int:
    """Return algorithm 2's number, or :func:`best_count`'s where that is clearly better.

    Where KV is short, preemptions change a run by a few percent whichever number is chosen: a
    smaller gain than that is none. Algorithm 2's number is held within what is possible: as printed
    it is never below the number of stages.

    Args:
        stages: Stages of the pipeline.
        most: The most micro-batches.
        tokens: Tokens of a round; no micro-batch will be empty.
        costs: What a micro-batch costs.
        return_s: The sampled token's way back to the first stage.
        context_tokens: Tokens of all contexts that a round attends to.
        margin: By which share algorithm 2's round must be longer.

    Raises:
        ConfigurationError: A number is out of range.
    """
    best = best_count(stages, most, tokens, costs, return_s=return_s, context_tokens=context_tokens)
    if not tokens:
        return best
    usual = min(least_gap_count(stages, most, tokens, costs), most, tokens)
    cost_s = _round_cost(stages, tokens, costs, return_s, True, REFILL_SHARE, context_tokens)
    return usual if cost_s(usual) <= (1.0 + margin) * cost_s(best) else best


def _round_cost(
    stages: int,
    tokens: int,
    costs: PipelineCosts,
    return_s: float,
    serial_links: bool,
    refill_share: float,
    context_tokens: float,
) -> Callable[[int], float]:
    """Return what a round of so many micro-batches costs (s)."""

    def cost_s(count: int) -> float:
        size = -(-tokens // count)
        compute_s = costs.compute_s(size) + costs.attend_s(context_tokens / count)
        way_s = first_token_s(stages, compute_s, costs.transfer_s(size))
        steady_s = round_s(
            stages,
            count,
            tokens,
            costs,
            return_s=return_s,
            serial_links=serial_links,
            context_tokens=context_tokens,
        )
        return steady_s + refill_share * way_s

    return cost_s


def least_of(timed: Iterable[tuple[int, float]]) -> int:
    """Return the number with the least time (s), the first of equals; 0 where there is none."""
    best, best_s = 0, math.inf
    for count, time_s in timed:
        if time_s < best_s * (1 - TIE):
            best, best_s = count, time_s
    return best


def require_numbers(stages: int, most: int, tokens: int) -> None:
    """Check what every rule is given.

    Raises:
        ConfigurationError: A number is out of range.
    """
    for name, value, least in (('stages', stages, 1), ('most', most, 1), ('tokens', tokens, 0)):
        if value < least:
            raise ConfigurationError(f'{name} {value}: expected {least} or more')
