"""Into how many micro-batches a pipeline's tokens are cut.

In a round each running generation gets one token. More micro-batches hide the time that links take;
fewer save what each of them costs by itself. Dynamic Micro-Batch Scheduling (preprints 202512.0788,
algorithm 2) takes the number whose first token comes when the first stage has done the round. That
number balances the two, but its round is not always the shortest.

Times are in seconds. A stage computes one micro-batch at a time, a link carries one at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TIE = 1e-12
"""Times that differ by less than this share are equal: rounding must not decide."""

REFILL_SHARE = 0.2
"""How often per round the pipeline has to be filled anew: work comes and goes."""

SURE_GAIN = 0.03
"""By which share a round must be shorter: preemptions change a run by a few percent anyway."""


@dataclass(frozen=True, slots=True)
class LinearCosts:
    """What a micro-batch costs, linear in its number of tokens.

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
        """Return how long a stage that computes and sends so many tokens can begin no others."""
        return self.compute_s(tokens) + self.held_share * self.transfer_s(tokens)

    def attend_s(self, context_tokens: float) -> float:
        """Return how long attending to so many tokens of context takes a stage."""
        return self.context_token_s * context_tokens


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


@dataclass(frozen=True, slots=True)
class PipelineModel:
    """How long rounds on a pipeline take, and into how many micro-batches to cut them.

    A round's tokens, and the ``context_tokens`` that they attend to, are spread as evenly as
    possible. No micro-batch is empty.

    Attributes:
        stages: How many stages.
        most: The most micro-batches in a round.
        costs: What a micro-batch costs.
        return_s: How long a sampled token takes back to the first stage.

    Raises:
        ConfigurationError: ``stages`` or ``most`` is below 1, or a method is given a negative
            number of tokens.
    """

    stages: int
    most: int
    costs: LinearCosts
    return_s: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (('stages', self.stages), ('most', self.most)):
            if value < 1:
                raise ConfigurationError(f'{name} {value}: expected 1 or more')

    def way_s(self, tokens: float, context_tokens: float = 0.0) -> float:
        """Return how long one micro-batch takes through the pipeline (eq. 1)."""
        compute_s = self.costs.compute_s(tokens) + self.costs.attend_s(context_tokens)
        return compute_s * self.stages + self.costs.transfer_s(tokens) * (self.stages - 1)

    def round_s(self, count: int, tokens: int, context_tokens: float = 0.0) -> float:
        """Return how long a round of ``count`` micro-batches takes in the long run.

        The first stage, a link, or the way of the largest micro-batch through the pipeline and back
        decides, whichever takes longest; the paper's eq. 2 leaves the link out.
        """
        costs, context = self.costs, context_tokens / count
        small, larger = divmod(tokens, count)
        largest = small + (larger > 0)

        def of_all(cost_s: Callable[[float], float]) -> float:
            return (count - larger) * cost_s(small) + larger * cost_s(largest)

        busy_s = of_all(costs.occupied_s if self.stages > 1 else costs.compute_s)
        busy_s += count * costs.attend_s(context)
        if self.stages > 1:
            busy_s = max(busy_s, of_all(costs.transfer_s))
        return max(busy_s, self.way_s(largest, context) + self.return_s)

    def least_gap_count(self, tokens: int) -> int:
        """Return algorithm 2's number: where eq. 1 and eq. 2 differ least, the smallest of equals.

        As printed, it is never below the number of stages.
        """
        best, best_gap_s = self.stages, math.inf
        for count in self._counts(tokens, self.stages):
            way_s = self.way_s(tokens / count)
            gap_s = abs(way_s - count * self.costs.compute_s(tokens / count))
            if gap_s < best_gap_s - TIE * way_s:
                best, best_gap_s = count, gap_s
        return best

    def best_count(self, tokens: int, context_tokens: float = 0.0) -> int:
        """Return the number of micro-batches with the shortest round; the smallest of equals.

        Where a link decides, many numbers have rounds of nearly the same length and differ in how
        long it takes to fill the pipeline, so ``REFILL_SHARE`` of that time counts with the round.
        One more micro-batch can then cost more than it hides: the number may be below ``stages``.
        """
        if not tokens:
            return min(self.stages, self.most)
        return _least(
            (count, self._cost_s(count, tokens, context_tokens)) for count in self._counts(tokens)
        )

    def sure_count(self, tokens: int, context_tokens: float = 0.0) -> int:
        """Return algorithm 2's number, within what is possible here.

        Where the round of :meth:`best_count`'s number is shorter by ``SURE_GAIN``, return that one.
        """
        best = self.best_count(tokens, context_tokens)
        if not tokens:
            return best
        usual = min(self.least_gap_count(tokens), self.most, tokens)
        usual_s = self._cost_s(usual, tokens, context_tokens)
        gains = usual_s > (1.0 + SURE_GAIN) * self._cost_s(best, tokens, context_tokens)
        return best if gains else usual

    def prefill_first_token_s(
        self,
        count: int,
        decode_tokens: int,
        prefill_tokens: int,
        *,
        urgent: bool,
        context_tokens: float = 0.0,
    ) -> float:
        """Return when a prefill that has just come has its first token, at worst.

        It waits for the next micro-batch, which takes all of an urgent prefill. Others are spread
        over all micro-batches of a round, and the token comes with the last of them.

        Args:
            count: Micro-batches in a round.
            decode_tokens: Generations that decode.
            prefill_tokens: Tokens of the prefill, and of all that is shared out with it.
            urgent: Whether the prefill goes before others, as in ``TokenBudget``.
            context_tokens: Tokens of all contexts that a round attends to.
        """
        chunks = 1 if urgent else count
        size = -(-decode_tokens // count) + -(-prefill_tokens // chunks)
        usual = decode_tokens if urgent else decode_tokens + prefill_tokens
        waiting_s = chunks * self.round_s(count, usual, context_tokens) / count
        return waiting_s + self.way_s(size, context_tokens / count) + self.return_s

    def count_in_time(
        self,
        decode_tokens: int,
        prefill_tokens: int,
        deadline_s: float,
        *,
        urgent: bool = True,
        context_tokens: float = 0.0,
    ) -> TimedCount:
        """Return the number with the shortest round whose prefill has its first token in time.

        Where none is in time, it is the number whose first token comes first. The arguments are
        those of :meth:`prefill_first_token_s`; ``deadline_s`` is the time left until the tightest
        deadline of a first token.
        """
        tokens = decode_tokens + prefill_tokens
        choices = []
        for count in self._counts(tokens) or (1,):
            first_s = self.prefill_first_token_s(
                count, decode_tokens, prefill_tokens, urgent=urgent, context_tokens=context_tokens
            )
            round_s = self.round_s(count, tokens, context_tokens)
            choices.append(TimedCount(count, round_s, first_s, first_s <= deadline_s))
        in_time = [choice for choice in choices if choice.in_time]
        found = _least(
            (choice.micro_batches, choice.round_s if in_time else choice.first_token_s)
            for choice in in_time or choices
        )
        return choices[found - 1]

    def _counts(self, tokens: int, least: int = 1) -> range:
        if tokens < 0:
            raise ConfigurationError(f'tokens {tokens}: expected 0 or more')
        return range(least, min(self.most, tokens) + 1)

    def _cost_s(self, count: int, tokens: int, context_tokens: float) -> float:
        way_s = self.way_s(-(-tokens // count), context_tokens / count)
        return self.round_s(count, tokens, context_tokens) + REFILL_SHARE * way_s


def _least(timed: Iterable[tuple[int, float]]) -> int:
    """Return the number with the least time (s), the first of equals."""
    best, best_s = 0, math.inf
    for count, time_s in timed:
        if time_s < best_s * (1 - TIE):
            best, best_s = count, time_s
    return best
