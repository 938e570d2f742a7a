"""The comparison of budgets: what is chosen is looked up, judged, and written into the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.golden import agrees, golden

from benchmarks.timebill.approaches import TimeBill, choices, fixed, judge, oracle, told
from benchmarks.timebill.estimates import Estimates
from benchmarks.timebill.record import Recorded, Tried
from benchmarks.timebill.record_file import Record, read_record, write_record
from benchmarks.timebill.rlp import row
from benchmarks.trail.replay import Spoken, Way, serve
from timely_llm_ros.prediction.lengths.response_length import LengthDistribution
from timely_llm_ros.prediction.times.execution_time import (
    DecodeCoefficients,
    ExecutionTimeModel,
    Margin,
    TimeCoefficients,
)

if TYPE_CHECKING:
    from pathlib import Path

GRID = (0.0, 0.5, 0.95)
TIMES = TimeCoefficients(0.0, 1e-4, 0.01, 1e-6, 0.002)


def said(length: int) -> LengthDistribution:
    """Return a length between one bucket below it and one above."""
    bucket = length // 4
    shares = [0.0] * 40
    for place, share in ((bucket - 1, 0.2), (bucket, 0.6), (bucket + 1, 0.2)):
        shares[max(0, place)] += share
    return LengthDistribution(tuple(shares), 4)


def job(number: int, prompt: int, length: int) -> Recorded:
    prefill_s = TIMES.prefill_time_s(prompt)
    times_s = (prefill_s + TIMES.decode_time_s(prompt, length, share) for share in GRID)
    tried = (
        Tried(total_s, length, 1 - share / 2, True, (total_s,))
        for share, total_s in zip(GRID, times_s, strict=True)
    )
    return Recorded(number, said(length), prompt, 0, prefill_s, tuple(tried))


def timebill(**options: Any) -> TimeBill:
    return TimeBill(GRID, Estimates(TIMES, TIMES), **options)


@examples(60)
@given(
    st.lists(st.tuples(st.integers(200, 4000), st.integers(2, 120)), min_size=1, max_size=12),
    st.floats(0.05, 1.0),
)
def test_who_knows_all_scores_best_and_ours_ends_what_the_most_eviction_ends(
    sizes: list[tuple[int, int]], budget_s: float
) -> None:
    jobs = [job(number, *size) for number, size in enumerate(sizes)]

    def score(approach: Any) -> Any:
        return judge(choices(approach, jobs, budget_s, 'kill'), jobs, budget_s, 'kill', GRID)

    best, ours, most = score(oracle), score(timebill()), score(fixed(2))
    for other in (ours, most, score(fixed(0)), score(timebill(refuses=True))):
        assert other.f1 <= best.f1 + 1e-9
    # The real length lies within what is said, so nothing that is judged possible fails.
    printed = score(timebill(decides='most'))
    assert printed.completion == most.completion
    assert ours.completion <= most.completion
    assert score(told(timebill())).f1 <= best.f1 + 1e-9


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    model = ExecutionTimeModel(
        0.0, 1e-4, 0.01, (DecodeCoefficients(1, 1e-6, 0.002),), (Margin(0.95, 1.1, 1.3),)
    )
    kept = Record(
        3, False, 'snapkv', GRID, 0.007, [{'batch': 1.0}], {'step_ms': 2.0}, model,
        tuple(job(number, 1000, 20 + number) for number in range(3)), {'f1': 0.5},
    )  # fmt: skip
    write_record(kept, tmp_path / 'record.json')
    assert read_record(tmp_path / 'record.json') == kept


def test_what_is_refused_neither_counts_nor_costs() -> None:
    jobs = [job(number, 1000, 100) for number in range(4)]
    budget_s = 0.9 * jobs[0].tried[2].total_s
    refused = judge(
        choices(timebill(refuses=True), jobs, budget_s, 'skip_next'), jobs, budget_s,
        'skip_next', GRID,
    )  # fmt: skip
    late = judge(choices(fixed(2), jobs, budget_s, 'skip_next'), jobs, budget_s, 'skip_next', GRID)
    assert (refused.refused, refused.completion, refused.f1) == (1.0, 0.0, 0.0)
    assert (late.completion, late.on_time) == (0.5, 0.0)


def test_knowing_lengths_serves_the_shorter_first() -> None:
    plans = [Spoken(60, 60.0, (1.0,) * 60), *[Spoken(5, 5.0, (1.0,) * 5)] * 4]
    ways: tuple[tuple[Way, str], ...] = (('none', 'fcfs'), ('prompt', 'srpt'), ('truth', 'srpt'))
    means = {}
    for way, policy in ways:
        found = serve(plans, [0.0] * 5, policy=policy, way=way, share=0.8, slots=1, step_s=0.02)
        means[way] = found.mean_s
    assert means['prompt'] < means['none'] / 2
    assert means['truth'] == pytest.approx(means['prompt'], rel=0.2)


def test_errors_of_predictors_are_the_golden_ones() -> None:
    for case in golden('golden_timebill.json')['mae_rmse_r2']:
        found = row('', np.array(case['inputs']['yhat']), np.array(case['inputs']['y']))
        assert agrees([found.mae, found.rmse, found.r2], case)
