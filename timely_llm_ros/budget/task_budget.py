"""What a task's time budget asks of its generation, decided when the task arrives.

An engine that evicts is asked for the smallest share with which the worst case fits. One that
cannot evict gets a limit on the response, the longest that fits; that is feasible where it is not
below the predicted length. Whoever calls may try shorter prompts.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from timely_llm_ros.budget.budgeter import MAX_EVICTED, choose_eviction
from timely_llm_ros.budget.eviction_rule import BudgetedEviction
from timely_llm_ros.budget.score_rule import (
    ENDED,
    SNAPKV_EFFECT,
    EvictionEffect,
    ScoredEviction,
    likely_lengths,
    spread_of,
)
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.options import check_options, option
from timely_llm_ros.prediction.lengths import pessimistic_length

if TYPE_CHECKING:
    from timely_llm_ros.budget.eviction_rule import EvictionRule
    from timely_llm_ros.prediction.lengths import LengthForecast
    from timely_llm_ros.prediction.times import ExecutionTimeModel, TimeCoefficients


EvictionChoice = Literal['score', 'worst_case', 'most']
"""What decides how much of a prompt is evicted."""


@dataclass(frozen=True, slots=True)
class BudgetOptions:
    """How careful the budgets are; those with a description are parameters of the planner node too.

    Attributes:
        effect: What becomes of responses after eviction.
        ended: Under Kill, what it is worth that there is any answer in time, where a perfect one
            is worth 1 more.

    Raises:
        ConfigurationError: A value out of range.
    """

    max_evicted: float = option(
        MAX_EVICTED,
        "Largest share of a prompt's KV that a time budget may evict.",
        minimum=0.0,
        maximum=0.999,
        live=True,
    )
    pessimism: float = option(
        0.0,
        'k of TimeBill: the worst case has k times the predicted length; 0 takes the length that '
        'budget_coverage of such plans do not exceed.',
        minimum=0.0,
        maximum=1000.0,
        live=True,
    )
    coverage: float = option(
        0.95,
        'Share of single prompts, steps and plan lengths that the worst case covers.',
        minimum=0.01,
        maximum=0.999,
        live=True,
    )
    eviction: EvictionChoice = option(
        'score',
        'What decides how much a time budget evicts: score weighs the chance to end in time '
        'against what eviction costs; worst_case takes the least with which the worst case fits, '
        'and weighs where none does; most evicts budget_max_evicted then, as TimeBill.',
        choices=get_args(EvictionChoice),
        live=True,
    )
    effect: EvictionEffect = SNAPKV_EFFECT
    ended: float = ENDED

    def __post_init__(self) -> None:
        check_options(self)
        if 0 < self.pessimism < 1:
            raise ConfigurationError(f'pessimism {self.pessimism!r}: expected 0, or 1 to 1000')
        if not 0 <= self.ended < math.inf:
            raise ConfigurationError(f'ended {self.ended!r}: expected a finite number >= 0')

    def worst_length(self, forecast: LengthForecast, max_tokens: int) -> int:
        """Return N_W (tokens); ``max_tokens`` where too little is known for the coverage."""
        if self.pessimism:
            return pessimistic_length(forecast.predicted(max_tokens), self.pessimism, max_tokens)
        found = forecast.quantile(self.coverage)
        return max_tokens if found is None else min(found, max_tokens)

    def rule(
        self,
        *,
        ends_by_s: float,
        expected: TimeCoefficients,
        worst: TimeCoefficients,
        worst_length: int,
        lengths: tuple[tuple[int, float], ...],
        period_s: float | None = None,
    ) -> EvictionRule:
        """Return what the engine is to ask once a prompt is computed.

        The arguments are the attributes of :class:`ScoredEviction` and :class:`BudgetedEviction`;
        ``expected`` and ``worst`` are the coefficients of the two cases.
        """
        spread = spread_of(expected, worst, self.coverage)
        scored = ScoredEviction(
            ends_by_s,
            expected,
            spread,
            lengths,
            self.effect,
            self.max_evicted,
            period_s,
            self.ended,
        )
        if self.eviction == 'score':
            return scored
        otherwise = scored if self.eviction == 'worst_case' else None
        return BudgetedEviction(ends_by_s, worst, worst_length, self.max_evicted, otherwise)

    def worst_times(
        self, times: ExecutionTimeModel, batch: int, other_kv_tokens: float
    ) -> TimeCoefficients:
        """Return the coefficients of the worst case, with the best margin that was measured."""
        known = [margin.coverage for margin in times.margins]
        coverage = min(self.coverage, max(known)) if known else None
        return times.at(batch, other_kv_tokens=other_kv_tokens, coverage=coverage)


@dataclass(frozen=True, slots=True)
class TaskBudget:
    """What was decided for a task with a time budget.

    Attributes:
        budget_s: T (s).
        prompt_tokens: N_x.
        predicted_length: Length to expect (tokens).
        worst_length: N_W (tokens).
        expected_s: The whole generation as expected, nothing evicted (s): t_e2e.
        worst_s: The worst case with what is evicted or cut off (s): t_WCET.
        evicted: alpha, the share of the prompt's KV to evict.
        max_tokens: Limit of the response (tokens).
        feasible: Whether the worst case fits the budget.
        worst_times: Coefficients of that worst case.
        expected_times: Coefficients of the expected case.
        lengths: What the length may be, ``(length, probability)``.
    """

    budget_s: float
    prompt_tokens: int
    predicted_length: int
    worst_length: int
    expected_s: float
    worst_s: float
    evicted: float
    max_tokens: int
    feasible: bool
    worst_times: TimeCoefficients
    expected_times: TimeCoefficients
    lengths: tuple[tuple[int, float], ...]


def plan_budget(
    expected: TimeCoefficients,
    worst: TimeCoefficients,
    *,
    budget_s: float,
    prompt_tokens: int,
    forecast: LengthForecast,
    max_tokens: int,
    options: BudgetOptions,
    evicts: bool,
) -> TaskBudget:
    """Return what a budget T (s, from now on) asks for.

    ``expected`` and ``worst`` are the coefficients of the two cases. ``max_tokens`` is N_max, the
    longest response that is allowed.
    """
    predicted = forecast.predicted(max_tokens)
    worst_length = max(predicted, options.worst_length(forecast, max_tokens))
    expected_s = expected.total_time_s(prompt_tokens, predicted)
    if evicts:
        choice = choose_eviction(
            worst,
            prompt_tokens=prompt_tokens,
            worst_length=worst_length,
            budget_s=budget_s,
            prefill_s=worst.prefill_time_s(prompt_tokens),
            max_evicted=options.max_evicted,
        )
        evicted, feasible, worst_s = choice.evicted, choice.feasible, choice.worst_s
    else:
        evicted = 0.0
        longest = longest_response(worst, prompt_tokens, budget_s, max_tokens)
        feasible = longest >= predicted
        if feasible:
            worst_length = min(worst_length, longest)
            max_tokens = longest
        worst_s = worst.total_time_s(prompt_tokens, worst_length)
    return TaskBudget(
        budget_s,
        prompt_tokens,
        predicted,
        worst_length,
        expected_s,
        worst_s,
        evicted,
        max_tokens,
        feasible,
        worst,
        expected,
        likely_lengths(forecast, max_tokens) if evicts else (),
    )


def longest_response(
    times: TimeCoefficients, prompt_tokens: int, budget_s: float, max_tokens: int
) -> int:
    """Return the longest response (tokens) that ends within a budget; 0 where none does."""
    if math.isnan(budget_s):
        raise ConfigurationError('time budget nan s: expected a number')
    lengths = range(1, max_tokens + 1)
    return bisect.bisect_right(
        lengths, budget_s, key=lambda length: times.total_time_s(prompt_tokens, length)
    )
