"""What a task is told to expect, and that what is promised is kept."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.planner.worth import Expectation, Expectations, Kind, PlanCosts
from timely_llm_ros.utility import NORMAL, URGENT

PATIENT, HASTY = Kind('exact', NORMAL), Kind('exact', URGENT)


def make() -> Expectations:
    costs = PlanCosts()
    for kind in (PATIENT, HASTY):
        for _ in range(3):
            costs.observe_first(kind, first_s=0.2, cost_s=0.05)
            costs.observe_plan(kind, 0.1)
            costs.observe_run(kind, 4.0)
    return Expectations(costs)


def expect(found: Expectations, *, robot_s: float = 0.0, urgent: bool = False) -> Expectation:
    made = found.expect(HASTY if urgent else PATIENT, now_s=0.0, robot_s=robot_s)
    assert made is not None
    return made


def test_nothing_is_expected_before_anything_was_seen() -> None:
    found = Expectations(PlanCosts())
    assert found.expect(PATIENT, now_s=0.0, robot_s=0.0) is None


def test_a_response_is_the_robots_wait_the_engines_and_ones_own_segment() -> None:
    found = make()
    assert expect(found).response_s == pytest.approx(0.2)
    for number in range(4):
        found.begin(str(number), PATIENT)
    made = expect(found, robot_s=3.0)
    assert made.robot_s == 3.0
    assert made.engine_s == pytest.approx(0.2)
    assert made.response_s == pytest.approx(3.4)
    assert made.completion_s == pytest.approx(7.4)
    assert made.utility == pytest.approx(NORMAL.first(3.4))
    # An urgent one goes before them.
    assert expect(found, urgent=True).response_s == pytest.approx(0.2)
    found.spend('0', 0.0, 0.05, first=True)
    found.end('1', None)
    assert expect(found).engine_s == pytest.approx(0.1)


def test_whoever_is_as_urgent_and_came_before_is_ahead_whatever_it_is_called() -> None:
    costs = PlanCosts()
    found = Expectations(costs)
    # Before anything was known of what they cost.
    found.begin('early', Kind('exact', URGENT, 'fetch'))
    for label, cost_s in (('fetch', 0.05), ('follow', 0.04)):
        for _ in range(3):
            costs.observe_first(Kind('exact', URGENT, label), first_s=0.2, cost_s=cost_s)
            costs.observe_plan(Kind('exact', URGENT, label), 0.1)
    for label in ('fetch', 'follow', 'new'):
        made = found.expect(Kind('exact', URGENT, label), now_s=0.0, robot_s=0.0)
        assert made is not None
        assert made.engine_s == pytest.approx(0.05)
    # What is learned later of what they cost changes no order.
    for _ in range(3):
        costs.observe_first(Kind('exact', URGENT, 'fetch'), first_s=0.2, cost_s=0.09)
    assert expect(found, urgent=True).engine_s > 0.05


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from(['', 'a', 'b'])), max_size=12),
    st.lists(st.tuples(st.booleans(), st.floats(0.01, 0.2)), max_size=12),
    st.booleans(),
)
def test_one_more_ahead_never_promises_sooner_and_its_end_takes_that_back(
    ahead: list[tuple[bool, str]], learned: list[tuple[bool, float]], urgent: bool
) -> None:
    costs = PlanCosts()
    found = Expectations(costs)
    for kind in (PATIENT, HASTY):
        for _ in range(3):
            costs.observe_first(kind, first_s=0.2, cost_s=0.05)
            costs.observe_plan(kind, 0.1)
    alone = expect(found, urgent=urgent)
    for number, (hasty, label) in enumerate(ahead):
        before = expect(found, urgent=urgent)
        found.begin(str(number), Kind('exact', URGENT if hasty else NORMAL, label))
        after = expect(found, urgent=urgent)
        assert after.promised_s >= before.promised_s
        if hasty == urgent:
            assert after.engine_s > before.engine_s
    for hasty, cost_s in learned:
        costs.observe_first(HASTY if hasty else PATIENT, first_s=0.2, cost_s=cost_s)
    same = sum(hasty == urgent for hasty, _ in ahead)
    cost = costs.find(HASTY if urgent else PATIENT)
    assert cost is not None
    least_s = same * cost.first_cost_s
    assert expect(found, urgent=urgent).engine_s >= least_s * (1 - 1e-9)
    for number in range(len(ahead)):
        found.end(str(number), None)
    assert found.pending == 0
    assert expect(found, urgent=urgent).engine_s == alone.engine_s == 0.0


def test_plans_that_go_on_leave_less_of_the_engine() -> None:
    found = make()
    found.begin('1', PATIENT)
    for _ in range(100):
        found.spend('other', 0.0, 0.05, first=False)
    assert expect(found).engine_s == pytest.approx(0.05 / 0.5)


@pytest.mark.parametrize('spread', [0.1, 0.5, 1.0])
def test_nine_of_ten_promises_are_kept_however_far_the_model_is_off(spread: float) -> None:
    found, rng = make(), random.Random(1)
    kept = []
    for number in range(3000):
        made = expect(found)
        found.promise(str(number), PATIENT, made)
        kept.append(found.end(str(number), 0.25 * rng.lognormvariate(0.0, spread)))
    assert 0.88 <= sum(map(bool, kept[200:])) / len(kept[200:]) <= 0.92


@pytest.mark.parametrize(('own', 'engine'), [(1.0, 0.3), (1.5, 1.0), (0.7, 2.0)])
def test_how_long_the_engine_is_waited_for_is_learned_apart_from_the_own_segment(
    own: float, engine: float
) -> None:
    """Those ahead may share its steps, or lengthen them."""
    found, rng = make(), random.Random(1)
    for number in range(200):
        ahead = [f'{number}: {place}' for place in range(rng.randrange(12))]
        for name in ahead:
            found.begin(name, PATIENT)
        made = expect(found)
        true_s = own * 0.2 + engine * 0.05 * len(ahead)
        if number >= 100:
            assert made.response_s == pytest.approx(true_s, rel=0.15)
            assert made.engine_s == pytest.approx(engine * 0.05 * len(ahead), abs=0.05)
        found.promise(str(number), PATIENT, made)
        found.end(str(number), true_s)
        for name in ahead:
            found.end(name, None)


def test_whoever_was_given_up_would_have_waited_longer() -> None:
    found = make()
    found.promise('1', PATIENT, expect(found))
    # Its own segment takes 0.2 s, and was to come.
    found.end('1', 0.3, given_up=True)
    assert expect(found).response_s == pytest.approx(0.5)
    # That one would have waited longer than so says nothing against what is expected.
    found.promise('2', PATIENT, expect(found))
    found.end('2', 0.1, given_up=True)
    assert expect(found).response_s == pytest.approx(0.5)


def test_a_promise_to_a_task_that_was_given_up_is_not_kept() -> None:
    found = make()
    found.promise('1', PATIENT, expect(found))
    assert found.end('1', 0.1, given_up=True) is False
    assert found.end('1', 0.1) is None
