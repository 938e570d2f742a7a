"""The rankings of the field rank as they say, and are what a fleet is served with."""

from __future__ import annotations

from importlib.metadata import distributions

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.field import PLUGIN
from benchmarks.field.field import BATCHES, Cell, Setting, best_setting, serve_draw
from benchmarks.field.policies import FIELD
from timely_llm_ros.scheduling import POLICIES, GenerationTable
from timely_llm_ros.utility import NORMAL, URGENT, TimeUtility

DRAWN = st.lists(
    st.tuples(
        st.floats(0, 20),
        st.sampled_from([NORMAL, URGENT]),
        st.integers(0, 12),
        st.floats(-5, 40),
        st.floats(1e-4, 2),
    ),
    max_size=40,
)


def filled(generations: list[tuple[float, TimeUtility, int, float, float]]) -> GenerationTable:
    table = GenerationTable()
    for number, (arrival_s, utility, index, due_s, generation_s) in enumerate(generations):
        name = f'g{number}'
        table.add(name, utility, arrival_s)
        table.set(name, 'segment_index', index)
        if index:
            table.set(name, 'due_s', max(arrival_s, due_s))
        table.set(name, 'expected_generation_s', generation_s)
    return table


def order(policy: str, *generations: tuple[float, TimeUtility, int, float, float]) -> list[int]:
    """The numbers of generations at 10 s, best rank first."""
    ranks = FIELD[policy].rank(filled(list(generations)).view(), 10.0)
    return [int(place) for place in np.argsort(-ranks, kind='stable')]


@pytest.mark.parametrize('policy', FIELD)
@given(generations=DRAWN, now_s=st.floats(0, 40))
def test_every_rank_is_finite_and_the_same_both_ways(
    policy: str, generations: list[tuple[float, TimeUtility, int, float, float]], now_s: float
) -> None:
    table = filled(generations)
    ranks = FIELD[policy].rank(table.view(), now_s)
    assert np.isfinite(ranks).all()
    assert ranks.tolist() == [FIELD[policy].rank_one(row, now_s) for row in table.rows()]


def test_programs_with_the_plugin_on_their_path_find_every_ranking() -> None:
    (plugin,) = distributions(path=[str(PLUGIN)])
    points = {point.name: point for point in plugin.entry_points}
    assert {point.group for point in points.values()} == {'timely_llm_ros.policies'}
    assert {name: point.load() for name, point in points.items()} == FIELD


def test_kairos_serves_whom_waiting_dominates_and_robots_that_work_last() -> None:
    long_busy = (0.0, NORMAL, 3, 9.5, 0.1)
    hardly_busy = (8.0, NORMAL, 1, 9.5, 0.1)
    first = (9.9, NORMAL, 0, 0.0, 0.1)
    works = (0.0, URGENT, 1, 14.0, 0.1)
    works_longer = (0.0, URGENT, 1, 19.0, 0.1)
    assert order('kairos', works_longer, works, long_busy, hardly_busy, first) == [4, 3, 2, 1, 0]


def test_jitserve_leaves_to_others_what_a_deadline_does_not_need_yet() -> None:
    pressed = (9.0, NORMAL, 0, 0.0, 0.1)
    has_time = (9.9, NORMAL, 0, 0.0, 0.1)
    lost = (0.0, URGENT, 0, 0.0, 0.1)
    assert order('jitserve', lost, has_time, pressed) == [2, 1, 0]


def test_andes_serves_whose_experience_falls_now_and_knows_no_slopes() -> None:
    late = (8.9, NORMAL, 0, 0.0, 0.1)
    in_time = (9.9, NORMAL, 0, 0.0, 0.1)
    assert order('andes', in_time, late) == [1, 0]
    dearer = TimeUtility(1.0, -20.0, 1.0)
    assert order('andes', late, (8.9, dearer, 0, 0.0, 0.1)) == [0, 1]


def test_the_tail_aware_boost_favours_short_work_but_not_for_ever() -> None:
    short, long = (9.5, NORMAL, 0, 0.0, 0.05), (9.0, NORMAL, 0, 0.0, 1.0)
    assert order('tail_aware', long, short) == [1, 0]
    assert order('tail_aware', (2.0, NORMAL, 0, 0.0, 1.0), short) == [0, 1]


def test_scorpio_puts_what_cannot_be_in_time_behind_all_that_can() -> None:
    missed, soon, later = (5.0, NORMAL, 0, 0.0, 0.1), (9.3, NORMAL, 0, 0.0, 0.1), 30.0
    assert order('scorpio', missed, (0.0, NORMAL, 2, later, 0.1), soon) == [2, 1, 0]


def test_a_fleet_is_served_with_the_policy_that_is_asked_for() -> None:
    before = dict(POLICIES)
    cell, setting = Cell('wid2', 1.0, 20.0), Setting('fixed', 2, refuses=False)
    found = {name: serve_draw(cell, 1, name, setting) for name in ('fcfs', 'scorpio', 'andes')}
    assert len({draw.utility for draw in found.values()}) == 3
    assert before == POLICIES
    assert serve_draw(cell, 1, 'andes', setting) == found['andes']


def test_the_best_setting_is_no_worse_than_any_batch_on_the_draws_it_was_found_on() -> None:
    cell = Cell('wid1', 2.0, 20.0)
    best = serve_draw(cell, 3, 'scorpio', best_setting(cell, 'scorpio', [3])).utility
    assert best >= max(serve_draw(cell, 3, 'scorpio', one).utility for one in BATCHES)
