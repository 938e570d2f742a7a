from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.scheduling.admission import OVERDUE_LOSS_PER_S, Candidate, StepTimes
from timely_llm_ros.scheduling.generation import GenerationTable, Phase
from timely_llm_ros.scheduling.lookahead import LookaheadBatchLimit
from timely_llm_ros.scheduling.options import SchedulingOptions
from timely_llm_ros.scheduling.policies import find_policy
from timely_llm_ros.utility import NORMAL, URGENT, TimeUtility

NEW_URGENT = Candidate(0.192, 4, 6.67, True)
NEW_NORMAL = Candidate(0.992, 5, 2.0, True)
LATER_SEGMENT = Candidate(2.0, 5, 0.0, False)


def toy_times(batches: int = 16) -> StepTimes:
    times = StepTimes()
    for batch in range(1, batches + 1):
        times.observe(batch, 0.0216 * (1 + 0.02 * (batch - 1)))
    times.observe_prefill(2, 1, 0.0216 * 1.02 + 0.030)
    return times


def test_the_time_of_a_beginning_is_learned_apart_from_that_of_a_step() -> None:
    times = toy_times()
    assert times.prefill_s == pytest.approx(0.030)
    times.observe_prefill(4, 3, 0.0216 * 1.06 + 0.090)
    assert times.prefill_s == pytest.approx(0.030)
    times.observe_prefill(4, 0, 99.0)
    assert times.prefill_s == pytest.approx(0.030)
    fresh = StepTimes()
    fresh.observe_prefill(1, 1, 0.05)
    assert fresh.prefill_s == 0.0, 'nothing is known of steps yet'
    assert not fresh.known
    fresh.observe(1, 0.02)
    assert fresh.prefill_s == pytest.approx(0.03), 'now the part that was decoding is known'
    assert fresh.known


def test_a_prompt_waits_while_it_would_make_an_urgent_one_late() -> None:
    limit = LookaheadBatchLimit(8, toy_times())
    # Three prompts and four tokens take 0.18 s; a fourth prompt would make all three late.
    assert limit.choose([NEW_URGENT] * 3) == [0, 1, 2]
    assert limit.choose([NEW_URGENT] * 3 + [NEW_NORMAL]) == [0, 1, 2]
    assert limit.choose([NEW_URGENT, NEW_NORMAL]) == [0, 1]


def test_a_row_fills_a_step_whoever_loses_by_it_where_that_is_asked_for() -> None:
    late = Candidate(-0.1, 4, 6.67, False)
    candidates = [late, NEW_NORMAL, LATER_SEGMENT, LATER_SEGMENT, LATER_SEGMENT]
    assert LookaheadBatchLimit(3, toy_times()).choose(candidates) == [0]
    assert LookaheadBatchLimit(3, toy_times(), fills=True).choose(candidates) == [0, 2, 3]
    table = GenerationTable()
    options = SchedulingOptions(admission='lookahead', fills=True)
    scheduler = options.scheduler(
        table, toy_times(), policy='least_loss', max_running=8, mode='segmented'
    )
    assert isinstance(scheduler._limit, LookaheadBatchLimit)
    assert scheduler._limit._fills


def test_a_mere_row_joins_where_a_prompt_must_wait() -> None:
    limit = LookaheadBatchLimit(8, toy_times())
    candidates = [NEW_URGENT] * 2 + [NEW_NORMAL] * 3 + [LATER_SEGMENT]
    assert limit.choose(candidates) == [0, 1, 2, 5]


def test_prompts_that_cannot_all_be_in_time_are_served_in_groups() -> None:
    """Against every way to cut them into groups that follow one another."""
    times = toy_times()
    for count in range(1, 9):
        cost: dict[int, float] = {}
        for cuts in itertools.product((False, True), repeat=count - 1):
            groups = itertools.groupby(itertools.accumulate((0, *map(int, cuts))))
            sizes = [len(list(same)) for _, same in groups]
            end_s, loss = 0.0, 0.0
            for size in sizes:
                end_s += size * times.prefill_s + 4 * 0.0216 * (1 + 0.02 * (count - 1))
                loss += size * 6.67 * max(0.0, end_s - 0.192)
            cost[sizes[0]] = min(loss, cost.get(sizes[0], math.inf))
        chosen = len(LookaheadBatchLimit(8, times).choose([NEW_URGENT] * count))
        # The first group's own step has only its rows in it: nearly the same, not quite.
        assert cost[chosen] <= 1.02 * min(cost.values()) + 0.02
    late_normals = [Candidate(-1.0, 5, 2.0, True)] * 3
    assert LookaheadBatchLimit(8, times).choose(late_normals) == [0, 1, 2]


def test_prompts_with_time_are_begun_few_at_a_time_if_somebody_dearer_may_come() -> None:
    limit = LookaheadBatchLimit(16, toy_times())
    assert limit.choose([NEW_NORMAL] * 9) == list(range(9)), 'nobody dearer was ever seen'
    limit.choose([NEW_URGENT])
    assert limit.choose([NEW_NORMAL] * 9) == [0]
    hurried = [NEW_NORMAL._replace(slack_s=0.5)] * 9
    assert 1 < len(limit.choose(hurried)) < 9


def test_the_first_step_is_watched_before_more_begin() -> None:
    limit = LookaheadBatchLimit(8, StepTimes())
    assert limit.choose([NEW_URGENT] * 5) == [0]
    begun = NEW_URGENT._replace(begins=False)
    assert limit.choose([begun, *[NEW_URGENT] * 4], running=1) == [0]
    assert limit.choose([LATER_SEGMENT] * 3) == [0, 1, 2]


def test_running_ones_that_may_not_be_interrupted_stay() -> None:
    limit = LookaheadBatchLimit(8, toy_times())
    candidates = [LATER_SEGMENT._replace(slack_s=-5.0), NEW_NORMAL, NEW_URGENT]
    assert limit.choose(candidates, running=2)[:2] == [0, 1]


@given(
    st.lists(
        st.builds(
            Candidate, st.floats(-5, 5), st.integers(-3, 50), st.floats(0, 10), st.booleans()
        ),
        max_size=40,
    ),
    st.integers(1, 8),
    st.booleans(),
)
def test_somebody_runs_and_never_more_than_may(
    candidates: list[Candidate], most: int, known: bool
) -> None:
    limit = LookaheadBatchLimit(most, toy_times() if known else StepTimes())
    places = list(limit.choose(candidates))
    assert places == sorted(set(places))
    assert len(places) <= most
    assert bool(places) == bool(candidates)
    if not known:
        assert sum(candidates[place].begins for place in places) <= 1


def test_without_deadlines_that_can_be_missed_everybody_runs() -> None:
    limit = LookaheadBatchLimit(6, toy_times())
    careless = [Candidate(0.0, 5, 0.0, True)] * 9
    assert limit.choose(careless) == [0, 1, 2, 3, 4, 5]


def test_least_loss_prefers_the_dearer_the_shorter_and_the_sooner_due() -> None:
    table = GenerationTable()
    policy = find_policy('least_loss')
    for name, utility, arrival_s, generation_s in (
        ('late_dear', URGENT, 0.0, 0.1),
        ('late', NORMAL, 0.0, 0.1),
        ('late_long', NORMAL, 0.0, 0.3),
        ('soon', NORMAL, 9.2, 0.1),
        ('far', NORMAL, 9.9, 0.1),
    ):
        table.add(name, utility, arrival_s)
        table.set(name, 'expected_generation_s', generation_s)
    ranks = policy.rank(table.view(), 10.0)
    assert [table.ids[row] for row in np.argsort(-ranks)] == [
        'late_dear', 'late', 'soon', 'late_long', 'far',
    ]  # fmt: skip
    assert [policy.rank_one(row, 10.0) for row in table.rows()] == pytest.approx(ranks.tolist())


def test_least_loss_counts_no_more_than_is_left_to_lose() -> None:
    wanted, hopeless = (replace(utility, floor=0.0) for utility in (NORMAL, URGENT))
    table = GenerationTable()
    policy = find_policy('least_loss')
    for name, utility, arrival_s in (
        ('wanted', wanted, 8.9),
        ('hopeless', hopeless, 9.605),
        ('gone', hopeless, 9.0),
        ('late', URGENT, 9.0),
        ('later segment', hopeless, 9.0),
    ):
        table.add(name, utility, arrival_s)
        table.set(name, 'expected_generation_s', 0.1)
    table.set('later segment', 'segment_index', 1)
    table.set('later segment', 'due_s', 9.0)
    ranks = dict(zip(table.ids, policy.rank(table.view(), 10.0), strict=True))
    assert ranks['late'] == ranks['later segment'] > ranks['wanted'] > ranks['hopeless']
    assert ranks['hopeless'] > ranks['gone'] > 0
    rows = [policy.rank_one(row, 10.0) for row in table.rows()]
    assert rows == pytest.approx(list(ranks.values()))


def test_who_has_nothing_left_to_lose_keeps_nobody_waiting() -> None:
    # Two urgent ones cannot be in time; a third still can if it is not kept waiting by them.
    lost = Candidate(-0.29, 4, 6.67, True, falls_s=0.3)
    assert lost.loss(0.2) == pytest.approx(lost.loss(5.0)) == pytest.approx(6.67 * 0.3)
    saved = Candidate(0.135, 4, 6.67, True, falls_s=0.3)
    limit = LookaheadBatchLimit(8, toy_times())
    assert limit.choose([saved, lost, lost]) == [0]
    forever = [item._replace(falls_s=math.inf) for item in (saved, lost, lost)]
    assert len(limit.choose(forever)) > 1


def test_the_scheduler_chooses_through_a_prompt_that_must_wait() -> None:
    for few in (0, 1000):
        table = GenerationTable()
        scheduler = SchedulingOptions(admission='lookahead').scheduler(
            table, toy_times(), policy='least_loss', max_running=8, mode='segmented'
        )
        scheduler._few = few
        for number in range(3):
            table.add(f'urgent_{number}', URGENT, 0.0)
        table.add('normal', NORMAL, 0.0)
        for name in table.ids:
            table.set(name, 'expected_generation_s', 0.1)
            table.set(name, 'worst_tokens', 4)
        assert set(scheduler.select(0.0)) == {'urgent_0', 'urgent_1', 'urgent_2'}
        assert scheduler.select(0.0) == ['urgent_0', 'urgent_1', 'urgent_2']


def test_a_row_fills_a_step_while_more_come_than_find_a_place() -> None:
    late = Candidate(-0.1, 4, 6.67, False)
    candidates = [late, NEW_NORMAL, LATER_SEGMENT, LATER_SEGMENT]
    limit = LookaheadBatchLimit(3, toy_times())
    assert limit.choose(candidates) == [0]
    for _ in range(100):
        limit.choose(candidates)
    assert limit.choose(candidates) == [0, 2, 3]
    for _ in range(200):
        limit.choose(candidates[:2])
    assert limit.choose(candidates) == [0]


def test_who_waited_beyond_the_age_bound_joins_whatever_others_lose() -> None:
    for few, waited_s in itertools.product((0, 1000), (4.0, 6.0)):
        table = GenerationTable()
        scheduler = SchedulingOptions(admission='lookahead', age_bound_s=5.0).scheduler(
            table, toy_times(), policy='least_loss', max_running=8, mode='segmented'
        )
        scheduler._few = few
        table.add('forgotten', NORMAL, 0.0)
        for number in range(6):
            table.add(f'urgent_{number}', URGENT, waited_s - 0.1)
        for name in table.ids:
            table.set(name, 'expected_generation_s', 0.1)
            table.set(name, 'worst_tokens', 4)
        table.set('forgotten', 'segment_index', 1)
        table.set('forgotten', 'phase', Phase.SUSPENDED)
        table.set('forgotten', 'due_s', 0.0)
        assert ('forgotten' in scheduler.select(waited_s)) == (waited_s > 5.0)


def test_who_waited_beyond_the_age_bound_begins_however_late_it_is_expected() -> None:
    for few, waited_s in itertools.product((0, 1000), (4.0, 6.0)):
        table = GenerationTable()
        scheduler = SchedulingOptions(admission='lookahead', age_bound_s=5.0).scheduler(
            table, toy_times(), policy='least_loss', max_running=8, mode='segmented'
        )
        scheduler._few = few
        table.add('patient', TimeUtility(1000.0, -1.0, 1.0), 0.0)
        for number in range(6):
            table.add(f'urgent_{number}', URGENT, waited_s - 0.1)
        for name in table.ids:
            table.set(name, 'expected_generation_s', 0.1)
            table.set(name, 'worst_tokens', 4)
        assert ('patient' in scheduler.select(waited_s)) == (waited_s > 5.0)


def test_prompts_are_begun_as_before_once_nobody_is_beyond_the_age_bound() -> None:
    limit = LookaheadBatchLimit(8, toy_times())
    dear = [Candidate(0.9, 4, 6.67, True)] * 3
    assert limit.choose(dear) == [0, 1, 2], 'nobody dearer may come'
    limit.choose([Candidate(0.0, 4, OVERDUE_LOSS_PER_S, True)])
    assert limit.choose(dear) == [0, 1, 2]


def test_a_pressed_prompt_counts_what_one_amid_its_segment_loses_that_may_be_interrupted() -> None:
    urgent, normal = Candidate(-0.01, 4, 6.67, False), Candidate(-0.1, 5, 2.0, True)
    limit = LookaheadBatchLimit(8, toy_times())
    assert limit.choose([urgent, normal]) == limit.choose([urgent, normal], 1) == [0]
    assert limit.choose([normal, urgent]) == [0, 1], 'the better-ranked one is not asked'
