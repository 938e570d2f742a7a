"""How far what was said of jobs held, and what eviction does to plans."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import numpy as np

from timely_llm_ros.budget import MAX_EVICTED, choose_eviction
from timely_llm_ros.training import LONGEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.timebill.approaches import TimeBill
    from benchmarks.timebill.figures import Row
    from benchmarks.timebill.record import Recorded

QUANTILES = (0.5, 0.8, 0.9, 0.95)


def effects(jobs: Sequence[Recorded], grid: Sequence[float]) -> dict[str, list[list[float]]]:
    """Return mean length, beside that with everything kept, and F1 of each fifth of the jobs.

    The shortest first; those that repeat themselves with everything kept take no part.
    """
    rows = {}
    for place, share in enumerate(grid):
        pairs = sorted(
            (it.tried[place].length / it.tried[0].length, it.tried[place].f1)
            for it in jobs
            if it.tried[0].length < LONGEST
        )
        fifths = (part.mean(axis=0) for part in np.array_split(np.array(pairs), 5) if len(part))
        rows[f'{share:g}'] = [[round(float(x), 2) for x in it] for it in fifths]
        print(f'{share:g} evicted, length and F1 by fifths: {rows[f"{share:g}"]}')
    return rows


def coverage(ours: TimeBill, jobs: Sequence[Recorded], grid: Sequence[float]) -> dict[str, Any]:
    """Return how often times, of single visits, and lengths stayed below what was said of them."""
    worst, expected = ours.estimates.worst, ours.estimates.expected
    rows: list[tuple[bool, bool, bool]] = []
    errors: list[float] = []
    for it in jobs:
        size, vanilla, length = (
            (it.prompt_tokens, it.cached_tokens),
            it.tried[0],
            ours.worst_length(it),
        )
        own_s = worst.total_time_s(size[0], vanilla.length, 0.0, size[1])
        wcet_s = worst.total_time_s(size[0], length, 0.0, size[1])
        rows.extend(
            (vanilla.length <= length, took_s <= own_s, took_s <= wcet_s)
            for took_s in vanilla.visits_s
        )
        said_s = expected.total_time_s(size[0], vanilla.length, 0.0, size[1])
        errors.append(abs(said_s / vanilla.total_s - 1))
    length_share, time_share, both = (
        statistics.fmean(map(float, column)) for column in zip(*rows, strict=True)
    )
    return {
        'length': length_share,
        'time_of_the_real_length': time_share,
        'wcet': both,
        'expected_time_mape_pct': 100 * statistics.fmean(errors),
        'mean_length_error_tokens': statistics.fmean(
            abs(it.forecast.mean - it.tried[0].length) for it in jobs
        ),
        'length_quantiles_by_share': {
            f'{share:g}': {
                f'{q}': statistics.fmean(
                    float(it.tried[place].length <= it.forecast.quantile(q)) for it in jobs
                )
                for q in QUANTILES
            }
            for place, share in enumerate(grid)
        },
    }


def leverage(ours: TimeBill, jobs: Sequence[Recorded], budgets_s: Sequence[float]) -> Row:
    """Return what eviction can save at most (SPEC: the width of the window of budgets)."""
    worst = ours.estimates.worst
    windows, shares, within = [], [], []
    for it in jobs:
        length = ours.worst_length(it)
        window_s = worst.leverage_s(it.prompt_tokens, length, MAX_EVICTED)
        windows.append(window_s)
        shares.append(
            window_s / worst.total_time_s(it.prompt_tokens, length, 0.0, it.cached_tokens)
        )
        for budget_s in budgets_s:
            choice = choose_eviction(
                worst,
                prompt_tokens=it.prompt_tokens,
                worst_length=length,
                budget_s=budget_s,
                prefill_s=worst.prefill_time_s(it.prompt_tokens, it.cached_tokens),
            )
            within.append(float(choice.evicted > 0 and choice.feasible))
    return {
        'median_s': statistics.median(windows),
        'median_share_of_wcet': statistics.median(shares),
        'budgets_within_the_window': statistics.fmean(within),
        'median_prompt_tokens': statistics.median(it.prompt_tokens for it in jobs),
    }
