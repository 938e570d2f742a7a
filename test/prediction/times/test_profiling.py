"""From timings to a fitted model, with a stopwatch that knows the truth."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.times.execution_time import (
    DecodeCoefficients,
    ExecutionTimeModel,
)
from timely_llm_ros.prediction.times.profiling import (
    PrefillPoint,
    ProfilePlan,
    RequestOverhead,
    StepPoint,
    expected_s,
    fit_profile,
    measure,
    predict_s,
    profile_errors,
)

if TYPE_CHECKING:
    from timely_llm_ros.prediction.times import Timings

TRUTH = ExecutionTimeModel(
    2e-8,
    1e-4,
    0.005,
    (
        DecodeCoefficients(1, 1e-6, 0.010),
        DecodeCoefficients(2, 1.5e-6, 0.012),
        DecodeCoefficients(4, 2e-6, 0.020),
    ),
)
PLAN = ProfilePlan((64, 256, 1024), (16, 1024), (1, 2, 4), 25)


@dataclass
class FakeStopwatch:
    """Says what the truth says, with noise; remembers what it was asked."""

    noise: float = 0.0
    asked: list[object] = field(default_factory=list)
    rng: random.Random = field(default_factory=lambda: random.Random(0))

    def _noisy(self, time_s: float) -> float:
        return time_s * (1 + self.noise * abs(self.rng.gauss(0, 1)))

    def prefill_s(self, tokens: int, cached: int) -> float:
        point = PrefillPoint(tokens, cached)
        self.asked.append(point)
        return self._noisy(predict_s(TRUTH, point))

    def steps_s(self, batch: int, kv_tokens: int) -> list[float]:
        point = StepPoint(batch, kv_tokens)
        self.asked.append(point)
        return [self._noisy(predict_s(TRUTH, point)) for _ in range(3)]


def test_the_truth_is_found() -> None:
    timings = measure(PLAN, FakeStopwatch())
    found = fit_profile(timings)
    assert found.prefill_square_s == pytest.approx(TRUTH.prefill_square_s)
    assert found.prefill_token_s == pytest.approx(TRUTH.prefill_token_s)
    assert found.prefill_s == pytest.approx(TRUTH.prefill_s)
    for entry, true in zip(found.decode, TRUTH.decode, strict=True):
        assert entry.batch == true.batch
        assert entry.kv_token_s == pytest.approx(true.kv_token_s)
        assert entry.step_s == pytest.approx(true.step_s)
    errors = profile_errors(found, timings)
    for size in (errors.prefill, *errors.steps.values()):
        assert size.held_out_mape_pct == pytest.approx(0, abs=1e-6)
        assert size.worst_pct == pytest.approx(0, abs=1e-6)
    assert list(errors.steps) == [1, 2, 4]


def test_the_worst_size_is_named_with_its_sign() -> None:
    timings = measure(PLAN, FakeStopwatch())
    timings[StepPoint(4, 128, held_out=True)] = [4 * predict_s(TRUTH, StepPoint(4, 128))]
    errors = profile_errors(TRUTH, timings)
    assert errors.steps[4].worst_pct == pytest.approx(-75)
    assert errors.steps[2].worst_pct == pytest.approx(0, abs=1e-6)


def test_noise_is_covered_by_the_margins() -> None:
    timings = measure(PLAN, FakeStopwatch(noise=0.2))
    found = fit_profile(timings)
    assert [margin.coverage for margin in found.margins] == [0.9, 0.95, 0.99]
    again = measure(PLAN, FakeStopwatch(noise=0.2, rng=random.Random(1)))
    for margin in found.margins:
        below = [
            time_s <= predict_s(found, point) * (
                margin.prefill if isinstance(point, PrefillPoint) else margin.step
            )
            for point, times_s in again.items()
            if point.held_out
            for time_s in times_s
        ]  # fmt: skip
        assert sum(below) / len(below) >= margin.coverage - 0.03


def test_few_measurements_state_no_coverage_that_they_cannot() -> None:
    once = ProfilePlan((64, 256, 1024), (16, 1024), (1,), 4)
    # Four rounds of four held-out prompts: 16 suffice for 0.9, which takes 9, not for 0.95.
    margins = fit_profile(measure(once, FakeStopwatch())).margins
    assert [margin.coverage for margin in margins] == [0.9]
    none = ProfilePlan((1, 2, 3), (1, 2), (1,), 1)
    assert fit_profile(measure(none, FakeStopwatch())).margins == ()


def test_rounds_measure_everything_once_in_ever_new_order() -> None:
    stopwatch, count = FakeStopwatch(), 0

    def advance() -> None:
        nonlocal count
        count += 1

    plan = ProfilePlan((64, 256, 1024), (16, 1024), (1, 2), 3)
    timings = measure(plan, stopwatch, advance=advance)
    size = len(plan.points)
    assert count == plan.visits == len(stopwatch.asked) == 4 * size
    rounds = [stopwatch.asked[n : n + size] for n in range(0, 4 * size, size)]
    assert all(set(one) == set(rounds[0]) for one in rounds)
    assert rounds[1] != rounds[2]
    # The first round warms up.
    assert all(
        len(times_s) == (3 if isinstance(point, PrefillPoint) else 9)
        for point, times_s in timings.items()
    )


def test_steps_may_be_visited_more_often_than_prompts() -> None:
    stopwatch = FakeStopwatch()
    plan = ProfilePlan((64, 256, 1024), (16, 1024), (1, 2), 3, step_visits=4)
    timings = measure(plan, stopwatch)
    assert plan.visits == len(stopwatch.asked)
    assert all(
        len(times_s) == (3 if isinstance(point, PrefillPoint) else 36)
        for point, times_s in timings.items()
    )


def test_a_brief_plan_finds_the_truth_with_little_computed() -> None:
    whole = ProfilePlan((64, 256, 1024), (64, 256, 1024), (1, 2, 4), 5)
    plan, stopwatch = whole.brief(), FakeStopwatch()
    found = fit_profile(measure(plan, stopwatch))
    assert plan.visits == len(stopwatch.asked)
    assert found.prefill_square_s == pytest.approx(TRUTH.prefill_square_s)
    assert found.prefill_token_s == pytest.approx(TRUTH.prefill_token_s)
    assert found.prefill_s == pytest.approx(TRUTH.prefill_s)
    assert [entry.step_s for entry in found.decode] == pytest.approx([0.010, 0.012, 0.020])
    prompts = [point for point in stopwatch.asked if isinstance(point, PrefillPoint)]
    assert max(point.tokens for point in prompts) == 1024
    assert max(point.tokens - point.cached for point in prompts) == 64
    assert expected_s(plan, FakeStopwatch(), steps=2) < expected_s(whole, FakeStopwatch(), steps=6)


@given(st.integers(3, 4096))
def test_a_brief_plan_can_be_fitted_whatever_its_sizes(longest: int) -> None:
    sizes = max(1, longest // 16), max(2, longest // 4), longest
    plan = ProfilePlan(sizes, sizes, (1, 8), 1).brief()
    assert len(set(plan.points)) == len(plan.points)
    assert all(0 <= p.cached < p.tokens for p in plan.points if isinstance(p, PrefillPoint))
    # Nothing is longer than what it was made from.
    assert max(plan.kv_tokens) <= longest
    assert max(plan.prompt_tokens) <= longest
    assert fit_profile(measure(plan, FakeStopwatch())).at(1).step_s > 0


def test_what_measuring_will_take_is_told_from_a_few_measurements() -> None:
    plan, stopwatch = ProfilePlan((64, 256, 1024), (64, 256, 1024), (1, 4), 2), FakeStopwatch()
    told_s = expected_s(plan, stopwatch, steps=3)
    assert len(stopwatch.asked) == 4
    took_s = 0.0
    for point in plan.points:
        took_s += predict_s(TRUTH, point) * (3 if isinstance(point, StepPoint) else 1)
    # The square of a long prompt is left out.
    assert told_s == pytest.approx(3 * took_s, rel=0.2)


def test_no_round_begins_once_it_is_enough_but_one_is_timed() -> None:
    plan = ProfilePlan((64, 256, 1024), (16, 1024), (1, 2), 5)
    for rounds, whole in ((1, plan), (0, plan.brief())):
        stopwatch = FakeStopwatch()
        timings = measure(whole, stopwatch, enough=lambda: True)
        assert len(stopwatch.asked) == (rounds + 1) * len(whole.points)
        assert set(timings) == set(whole.points)


@given(
    st.sets(st.integers(1, 4096), min_size=3, max_size=6),
    st.sets(st.integers(1, 4096), min_size=2, max_size=5),
    st.sets(st.integers(1, 32), min_size=1, max_size=4),
)
def test_what_is_held_out_is_not_fitted(
    prompts: set[int], contexts: set[int], batches: set[int]
) -> None:
    points = ProfilePlan(tuple(prompts), tuple(contexts), tuple(batches), 1).points
    assert len(set(points)) == len(points)
    fitted = {p for p in points if not p.held_out}
    assert fitted == {PrefillPoint(n) for n in prompts} | {
        StepPoint(b, n) for b in batches for n in contexts
    }
    for point in points:
        if not point.held_out:
            continue
        if isinstance(point, StepPoint):
            assert min(contexts) < point.kv_tokens < max(contexts)
        else:
            assert min(prompts) <= point.tokens <= max(prompts)
            assert point.cached < point.tokens


@pytest.mark.parametrize(
    ('values', 'message'),
    [
        (((64, 64, 128), (1, 2), (1,), 1), r'prompt sizes \[64, 64, 128\]: expected at least 3'),
        (((64, 128, 0), (1, 2), (1,), 1), r'prompt sizes \[0, 64, 128\]'),
        (((1, 2, 3), (5,), (1,), 1), r'context sizes \[5\]: expected at least 2'),
        (((1, 2, 3), (1, 2), (), 1), r'batch sizes \[\]: expected at least 1'),
        (((1, 2, 3), (1, 2), (1,), 0), '0 repeats'),
        (((1, 2, 3), (1, 2), (1,), 1, 0), '0 step visits'),
        (((1, 2, 3), (1, 2), (1,), 1, 1, -1), '-1 computed tokens'),
    ],
)
def test_plans_that_cannot_be_fitted(values: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ProfilePlan(*values)


def test_timings_of_one_kind_only() -> None:
    timings: Timings = {PrefillPoint(n): [0.1 * n] for n in (1, 2, 3)}
    with pytest.raises(ConfigurationError, match='batch sizes'):
        fit_profile(timings)
    with pytest.raises(ConfigurationError, match='no timings'):
        profile_errors(TRUTH, {StepPoint(1, 16): [0.1]})


def test_what_requests_add_is_a_constant_of_each_prompt_and_step() -> None:
    found = RequestOverhead(0.002, ((1, 0.001), (4, 0.004)), 3e-6).added_to(TRUTH)
    assert found.at(1).evicting_time_s(1000) == pytest.approx(0.003)
    for tokens, cached in ((10, 0), (1000, 400)):
        before_s = TRUTH.at(1).prefill_time_s(tokens, cached)
        assert found.at(1).prefill_time_s(tokens, cached) == pytest.approx(before_s + 0.002)
    for batch, added_s in ((1, 0.001), (2, 0.002), (4, 0.004)):
        before_s = TRUTH.at(batch).step_time_s(500)
        assert found.at(batch).step_time_s(500) == pytest.approx(before_s + added_s)
    assert found.margins == TRUTH.margins
