"""The approaches that TimeBill compares, and ours: which share of a job's prompt each evicts."""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

from benchmarks.timebill.estimates import COVERAGE
from benchmarks.timebill.overrun import kill, skip_next, skipped_jobs
from timely_llm_ros.budget import ENDED, BudgetOptions, choose_eviction, likely_lengths
from timely_llm_ros.prediction.lengths import LengthDistribution

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.timebill.estimates import Estimates
    from benchmarks.timebill.record import Recorded
    from timely_llm_ros.budget import EvictionChoice, EvictionRule

Overrun = Literal['kill', 'skip_next']
MAX_TOKENS = 512
ORDERS = 50
"""Random orders of the jobs that Skip-Next is averaged over: it matters which ones are skipped."""


class Approach(Protocol):
    """Chooses a place in the grid of shares; None refuses the job."""

    def __call__(self, job: Recorded, budget_s: float, overrun: Overrun) -> int | None: ...


def fixed(place: int) -> Approach:
    """Return what evicts the same share always."""
    return lambda _job, _budget_s, _overrun: place


@dataclass(frozen=True, slots=True)
class TimeBill:
    """Evicts as the planner does.

    Attributes:
        grid: The shares there are; what is needed is rounded up to one of them.
        estimates: What is known beforehand.
        pessimism: k of the paper, times its predicted length; None takes the quantile of the
            predicted distribution.
        decides: What decides how much is evicted, see :class:`BudgetOptions`.
        ended: What it is worth that there is any answer in time, see :class:`BudgetOptions`.
        refuses: Whether jobs whose worst case does not fit when they arrive are refused.
    """

    grid: Sequence[float]
    estimates: Estimates
    pessimism: float | None = None
    decides: EvictionChoice = 'score'
    ended: float = ENDED
    refuses: bool = False

    def worst_length(self, job: Recorded) -> int:
        """Return N_W (tokens)."""
        options = BudgetOptions(pessimism=self.pessimism or 0.0, coverage=COVERAGE)
        return options.worst_length(job.forecast, MAX_TOKENS)

    def rule(self, job: Recorded, ends_by_s: float, period_s: float | None) -> EvictionRule:
        """Return what decides after the job's prefill."""
        return BudgetOptions(coverage=COVERAGE, eviction=self.decides, ended=self.ended).rule(
            ends_by_s=ends_by_s,
            expected=self.estimates.expected,
            worst=self.estimates.worst,
            worst_length=self.worst_length(job),
            lengths=likely_lengths(job.forecast, MAX_TOKENS),
            period_s=period_s,
        )

    def __call__(self, job: Recorded, budget_s: float, overrun: Overrun) -> int | None:
        """Choose when the prompt has been computed; refuse before that."""
        tokens = job.prompt_tokens
        if self.refuses:
            choice = choose_eviction(
                self.estimates.worst,
                prompt_tokens=tokens,
                worst_length=self.worst_length(job),
                budget_s=budget_s,
                prefill_s=self.estimates.worst.prefill_time_s(tokens, job.cached_tokens),
            )
            if not choice.feasible:
                return None
        rule = self.rule(job, budget_s, budget_s if overrun == 'skip_next' else None)
        needed = 1 - (rule.keep(tokens, job.prefill_s) + 1) / tokens
        return next(place for place, share in enumerate(self.grid) if share >= needed - 1e-9)


def told(approach: Approach) -> Approach:
    """Return the same approach with the length told beforehand that a plan has if all is kept."""

    def chosen(job: Recorded, budget_s: float, overrun: Overrun) -> int | None:
        length = job.tried[0].length
        known = LengthDistribution((*[0.0] * (length - 1), 1.0), 1)
        return approach(replace(job, forecast=known), budget_s, overrun)

    return chosen


def oracle(job: Recorded, budget_s: float, overrun: Overrun) -> int:  # noqa: ARG001 (an approach)
    """Choose as one who knows how long each share would take and what would come of it."""

    def worth(place: int) -> tuple[float, float]:
        tried = job.tried[place]
        skipped = skipped_jobs(tried.total_s, budget_s)
        return -skipped, tried.f1

    return max(range(len(job.tried)), key=worth)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an approach fared at one budget; rates are shares of all jobs."""

    f1: float
    exact: float
    completion: float
    on_time: float
    refused: float
    evicted: float


Choices = dict[int, int | None]
"""By job's number: the place in the grid that an approach chose, None where it refused."""


def choices(
    approach: Approach, jobs: Sequence[Recorded], budget_s: float, overrun: Overrun
) -> Choices:
    """Let an approach choose for every job."""
    return {job.number: approach(job, budget_s, overrun) for job in jobs}


def judge(
    chosen: Choices,
    jobs: Sequence[Recorded],
    budget_s: float,
    overrun: Overrun,
    grid: Sequence[float],
    *,
    orders: int = ORDERS,
    seed: int = 0,
) -> Verdict:
    """Count what ends in time with what was chosen."""
    rng = random.Random(seed)
    verdicts = []
    order = list(jobs)
    for _ in range(1 if overrun == 'kill' else orders):
        tried = [
            None if (place := chosen[job.number]) is None else job.tried[place] for job in order
        ]
        times_s = [0.0 if it is None else it.total_s for it in tried]
        report = (kill if overrun == 'kill' else skip_next)(times_s, budget_s)
        done = [
            it if ok and it is not None else None
            for it, ok in zip(tried, report.completed, strict=True)
        ]
        on_time = [
            end == 'on_time' and it is not None for end, it in zip(report.ends, tried, strict=True)
        ]
        verdicts.append(
            (
                statistics.fmean(it.f1 if it else 0.0 for it in done),
                statistics.fmean(float(it is not None and it.exact) for it in done),
                statistics.fmean(float(it is not None) for it in done),
                statistics.fmean(map(float, on_time)),
            )
        )
        rng.shuffle(order)
    places = [chosen[job.number] for job in jobs]
    f1, exact, completion, on_time_share = map(statistics.fmean, zip(*verdicts, strict=True))
    return Verdict(
        f1,
        exact,
        completion,
        on_time_share,
        statistics.fmean(float(place is None) for place in places),
        statistics.fmean(grid[place] for place in places if place is not None)
        if any(place is not None for place in places)
        else 0.0,
    )


def standard_error(
    ours: Choices,
    other: Choices,
    jobs: Sequence[Recorded],
    judged: Callable[[Choices, Sequence[Recorded], int], float],
    *,
    draws: int = 100,
) -> float:
    """Return the standard error of a difference, jobs drawn again with replacement."""
    rng = random.Random(1)
    differences = []
    for seed in range(draws):
        drawn = rng.choices(jobs, k=len(jobs))
        differences.append(judged(ours, drawn, seed) - judged(other, drawn, seed))
    return statistics.stdev(differences)
