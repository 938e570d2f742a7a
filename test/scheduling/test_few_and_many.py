"""The scheduler ranks few generations in plain Python and many with numpy: the same, always."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.equation_4 import priority
from support.examples import examples

from timely_llm_ros.scheduling.admission import BatchLimit, StepTimes
from timely_llm_ros.scheduling.generation import GenerationTable, Phase
from timely_llm_ros.scheduling.policies import POLICIES, HighestUtilityDensityFirst
from timely_llm_ros.scheduling.scheduler import Scheduler, ServingMode
from timely_llm_ros.utility import TimeUtility

Drawn = tuple[float, TimeUtility, int, float, float, int, Phase]

GENERATIONS = st.lists(
    st.tuples(
        st.floats(0, 20),
        st.builds(
            TimeUtility,
            st.floats(0, 2),
            st.floats(-8, 0),
            st.floats(0.1, 3),
            st.sampled_from([-math.inf, -1.0, 0.0]),
        ),
        st.integers(0, 3),
        st.floats(-5, 25),
        st.floats(1e-4, 2),
        st.integers(0, 9),
        st.sampled_from([Phase.QUEUED, Phase.RUNNING, Phase.SUSPENDED, Phase.HELD]),
    ),
    max_size=80,
)


def fill(
    generations: list[Drawn],
) -> GenerationTable:
    table = GenerationTable(capacity=4)
    for number, (arrival_s, utility, index, due_s, generation_s, done, phase) in enumerate(
        generations
    ):
        name = f'g{number}'
        table.add(name, utility, arrival_s)
        table.set(name, 'segment_index', index)
        if index:
            table.set(name, 'due_s', due_s)
        table.set(name, 'expected_generation_s', generation_s)
        table.set(name, 'generated_tokens', done)
        table.set(name, 'worst_tokens', 10)
        table.set(name, 'phase', phase)
    return table


@examples(150)
@given(
    GENERATIONS,
    st.floats(0, 30),
    st.integers(1, 6),
    st.sampled_from(sorted(POLICIES)),
    st.sampled_from(['segmented', 'stream', 'whole_plan']),
    st.booleans(),
    st.sampled_from([None, 5.0]),
    st.booleans(),
)
def test_both_ways_choose_the_same(
    generations: list[Drawn],
    now_s: float,
    max_running: int,
    policy: str,
    mode: ServingMode,
    interrupts: bool,
    age_bound_s: float | None,
    veto: bool,
) -> None:
    chosen, ranks = [], []
    for few in (0, 1000):
        table, times = fill(generations), StepTimes()
        for batch in range(1, max_running + 1):
            times.observe(batch, 0.02 * batch)
        scheduler = Scheduler(
            table,
            POLICIES[policy],
            BatchLimit(max_running, times, veto=veto),
            mode=mode,
            interrupts=interrupts,
            age_bound_s=age_bound_s,
            few=few,
        )
        chosen.append(scheduler.select(now_s) if generations else [])
        ranks.append(table.column('rank').copy())
    assert chosen[0] == chosen[1]
    np.testing.assert_array_equal(ranks[0], ranks[1])
    free = sum(phase is not Phase.HELD for *_, phase in generations)
    assert len(chosen[0]) <= min(free, max_running)
    assert bool(chosen[0]) == bool(free)
    assert not {f'g{n}' for n, g in enumerate(generations) if g[-1] is Phase.HELD} & {*chosen[0]}


@given(GENERATIONS.filter(bool), st.floats(0, 30), st.floats(0, 0.1))
def test_the_density_is_that_of_equation_4(
    generations: list[Drawn],
    now_s: float,
    network_s: float,
) -> None:
    view = fill(generations).view()
    policy = HighestUtilityDensityFirst(network_s=network_s)
    ranks = policy.rank(view, now_s)
    parts = priority(view, now_s, network_s=network_s)
    for rank, density, utility, generation_s, alpha in zip(
        ranks, parts.density, parts.utility, view.expected_generation_s, view.alpha, strict=True
    ):
        if abs(utility) < 1e-9:
            continue
        expected = density if utility > 0 else -generation_s / abs(alpha)
        assert rank == pytest.approx(expected, rel=1e-6)


def test_many_equal_ranks_are_served_in_the_order_of_arrival() -> None:
    table = GenerationTable()
    utility = TimeUtility(1.0, -2.0, 1.0)
    for number in range(500):
        table.add(f'g{number}', utility, 0.0)
        table.set(f'g{number}', 'expected_generation_s', 0.1)
    for number in range(0, 500, 2):
        table.set(f'g{number}', 'phase', Phase.HELD)
    limit = BatchLimit(5, StepTimes())
    scheduler = Scheduler(table, POLICIES['utility'], limit, few=0)
    assert scheduler.select(0.5) == ['g1', 'g3', 'g5', 'g7', 'g9']
    assert math.isnan(table.get('g0', 'rank'))


def test_a_table_of_held_generations_has_nothing_to_run() -> None:
    table = GenerationTable()
    for number in range(200):
        table.add(f'g{number}', TimeUtility(1.0, -2.0, 1.0), 0.0)
        table.set(f'g{number}', 'expected_generation_s', 0.1)
        table.set(f'g{number}', 'phase', Phase.HELD)
    for few in (0, 1000):
        scheduler = Scheduler(
            table, POLICIES['utility'], BatchLimit(2, StepTimes()), few=few, age_bound_s=1.0
        )
        assert scheduler.select(50.0) == []
