from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.scheduling.admission import BatchLimit, StepTimes
from timely_llm_ros.scheduling.costs import (
    ENOUGH,
    MOST_CLASSES,
    UNKNOWN_GENERATION_S,
    SegmentCosts,
)
from timely_llm_ros.scheduling.generation import GenerationTable, Phase
from timely_llm_ros.scheduling.policies import find_policy
from timely_llm_ros.scheduling.scheduler import Scheduler, ServingMode
from timely_llm_ros.utility import NORMAL, URGENT, TimeUtility


def make(
    policy: str = 'utility', *, max_running: int = 2, mode: ServingMode = 'segmented'
) -> tuple[GenerationTable, Scheduler, StepTimes]:
    table, times = GenerationTable(capacity=1), StepTimes()
    return (
        table,
        Scheduler(table, find_policy(policy), BatchLimit(max_running, times), mode=mode),
        times,
    )


def add(table: GenerationTable, name: str, arrival_s: float = 0.0, *, urgent: bool = False) -> None:
    table.add(name, URGENT if urgent else NORMAL, arrival_s)
    table.set(name, 'expected_generation_s', 0.1)
    table.set(name, 'worst_tokens', 10)


def test_an_urgent_newcomer_goes_first() -> None:
    table, scheduler, _ = make()
    for name in ('a', 'b', 'c'):
        add(table, name)
    add(table, 'u', 0.05, urgent=True)
    assert scheduler.select(0.05) == ['u', 'a']


def test_held_generations_do_not_compete() -> None:
    table, scheduler, _ = make()
    add(table, 'a')
    add(table, 'b')
    table.set('a', 'phase', Phase.HELD)
    assert scheduler.select(0.0) == ['b']
    table.set('b', 'phase', Phase.HELD)
    assert scheduler.select(0.0) == []


def test_a_segment_in_the_making_is_interrupted_only_for_a_clearly_better_one() -> None:
    table, scheduler, _ = make(max_running=1)
    add(table, 'a', 0.0)
    add(table, 'b', 0.1)
    table.set('b', 'phase', Phase.RUNNING)
    # Slacks of 0.8 and 0.9 s: 'a' ranks higher, but not by half.
    assert scheduler.select(0.2) == ['b']
    add(table, 'u', 0.2, urgent=True)
    assert scheduler.select(0.2) == ['u']


@pytest.mark.parametrize('mode', ['stream', 'whole_plan'])
def test_run_to_completion(mode: ServingMode) -> None:
    table, scheduler, _ = make('utility', mode=mode)
    add(table, 'late', 5.0)
    table.set('late', 'phase', Phase.RUNNING)
    add(table, 'a', 1.0)
    add(table, 'b', 2.0)
    add(table, 'u', 3.0, urgent=True)
    assert scheduler.select(6.0) == ['late', 'a']


def test_equal_ranks_keep_their_order() -> None:
    table, scheduler, _ = make('fcfs', max_running=3)
    for name in 'abcdefghijklmnop':
        add(table, name)
    table.remove('a')
    assert scheduler.select(0.0) == ['b', 'c', 'd']


@given(
    st.lists(st.tuples(st.integers(0, 20), st.booleans(), st.sampled_from(list(Phase)[:4]))),
    st.integers(1, 5),
)
def test_selects_the_best_of_those_not_held(
    rows: list[tuple[int, bool, Phase]], max_running: int
) -> None:
    table, scheduler, _ = make('fcfs', max_running=max_running)
    expected = []
    for number, (arrival_s, urgent, phase) in enumerate(rows):
        add(table, str(number), float(arrival_s), urgent=urgent)
        table.set(str(number), 'phase', phase)
        if phase is not Phase.HELD:
            expected.append((arrival_s, number))
    names = [str(number) for _, number in sorted(expected)[:max_running]]
    assert scheduler.select(30.0) == names


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=200))
def test_table_holds_what_a_dictionary_would(operations: list[tuple[bool, int]]) -> None:
    table, model = GenerationTable(capacity=1), {}
    for adds, number in operations:
        name = str(number)
        if adds and name not in model:
            table.add(name, NORMAL, float(number))
            table.set(name, 'due_s', number + 0.5)
            model[name] = number
        elif not adds and name in model:
            table.remove(name)
            del model[name]
            assert table.phase(name) is Phase.ENDED
        assert len(table) == len(model)
        assert set(table.ids) == set(model)
    for name, number in model.items():
        assert table.get(name, 'due_s') == number + 0.5
        assert table.view().arrival_s[table.row(name)] == number


def test_only_a_generation_that_can_still_make_it_may_veto() -> None:
    times = StepTimes()
    for batch, step_s in ((1, 0.010), (2, 0.015), (3, 0.030)):
        times.observe(batch, step_s)
    limit = BatchLimit(8, times)
    # Ten tokens in 0.2 s allow 20 ms per step: a second one fits, a third one does not.
    assert limit.count([(0.2, 10), (9.0, 10), (9.0, 10)]) == 2
    # 5 ms per step was never possible, so it does not hold the others up.
    assert limit.count([(0.05, 10), (9.0, 10), (9.0, 10)]) == 3
    assert limit.count([(-1.0, 10), (9.0, 10), (9.0, 10)]) == 3
    assert limit.count([]) == 0
    assert BatchLimit(2, times, veto=False).count([(0.2, 10)] * 5) == 2


def test_unseen_batch_sizes_are_tried() -> None:
    times = StepTimes()
    assert times.expected_s(3) is None
    times.observe(2, 0.01)
    assert times.expected_s(4) == times.expected_s(1) == 0.01


def test_a_share_of_a_full_step_is_not_taken_for_that_of_a_half_empty_one() -> None:
    times = StepTimes()
    assert times.row_s(16) == 0.0
    times.observe(1, 0.020)
    assert times.row_s(16) == pytest.approx(0.020 / 16)
    times.observe(3, 0.024)
    assert times.row_s(16) == pytest.approx((0.024 + 13 * 0.002) / 16)
    times.observe(16, 0.080)
    assert times.row_s(16) == pytest.approx(0.005)
    times.observe(12, 0.048)
    assert times.row_s(16) == pytest.approx(0.004), 'the least that was seen'


def test_costs_are_learned_per_class() -> None:
    costs = SegmentCosts(weight=0.5, decay=0.5)
    assert costs.expected_s('tello', NORMAL, first=True) == UNKNOWN_GENERATION_S
    costs.observe('tello', NORMAL, first=True, generation_s=0.4, tokens=8)
    costs.observe('tello', NORMAL, first=True, generation_s=0.2, tokens=2)
    assert costs.expected_s('tello', NORMAL, first=True) == pytest.approx(0.3)
    assert costs.worst_tokens('tello', NORMAL, first=True) == 4
    assert costs.expected_s('tello', NORMAL, first=False) == UNKNOWN_GENERATION_S
    assert costs.expected_s('arm', NORMAL, first=True) == UNKNOWN_GENERATION_S


def test_a_class_that_is_new_costs_what_its_skill_set_costs() -> None:
    costs = SegmentCosts()
    for _ in range(5):
        costs.observe('tello', NORMAL, first=True, generation_s=0.4, tokens=8)
    for seen in range(4):
        alone = seen >= ENOUGH
        assert costs.worst_tokens('tello', URGENT, first=True) == (2 if alone else 8)
        assert (costs.expected_s('tello', URGENT, first=True) == 0.1) == alone
        costs.observe('tello', URGENT, first=True, generation_s=0.1, tokens=2)
    assert costs.worst_tokens('tello', NORMAL, first=True) == 8


def test_utilities_without_end_are_not_all_kept() -> None:
    costs = SegmentCosts()
    for number in range(2 * MOST_CLASSES):
        utility = TimeUtility(1.0, -2.0, 1.0 + number)
        costs.observe('tello', utility, first=True, generation_s=0.1, tokens=3)
    assert len(costs._costs) == MOST_CLASSES
    assert costs.worst_tokens('tello', TimeUtility(1.0, -2.0, 9999.0), first=True) == 3
