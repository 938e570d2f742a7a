from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.scheduling.admission import PrintedBatchLimit, StepTimes
from timely_llm_ros.scheduling.costs import ProfiledCosts
from timely_llm_ros.scheduling.generation import GenerationTable, Phase
from timely_llm_ros.scheduling.options import SchedulingOptions
from timely_llm_ros.scheduling.policies import POLICIES
from timely_llm_ros.utility import NORMAL, URGENT, TimeUtility

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.scheduling.scheduler import Scheduler


def make(
    options: SchedulingOptions, *, policy: str = 'utility', max_running: int = 1
) -> tuple[GenerationTable, Scheduler]:
    table = GenerationTable()
    scheduler = options.scheduler(
        table, StepTimes(), policy=policy, max_running=max_running, mode='segmented'
    )
    return table, scheduler


def add(
    table: GenerationTable,
    name: str,
    arrival_s: float,
    utility: TimeUtility = NORMAL,
    generation_s: float = 0.1,
) -> None:
    table.add(name, utility, arrival_s)
    table.set(name, 'expected_generation_s', generation_s)
    table.set(name, 'worst_tokens', 10)


def run_overloaded(options: SchedulingOptions, duration_s: float) -> list[tuple[float, str]]:
    """Serve a late normal generation among urgent ones that come as fast as they are served."""
    table, scheduler = make(options)
    add(table, 'normal', -2.0)
    served: list[tuple[float, str]] = []
    now_s, names = 0.0, itertools.count()
    while now_s < duration_s:
        add(table, f'urgent_{next(names)}', now_s, URGENT)
        (chosen,) = scheduler.select(now_s)
        served.append((now_s, chosen))
        table.remove(chosen)
        now_s += 0.2
    return served


def test_nobody_starves_beyond_the_age_bound() -> None:
    free = {name: at_s for at_s, name in run_overloaded(SchedulingOptions(age_bound_s=None), 60.0)}
    assert 'normal' not in free
    bounded = {
        name: at_s for at_s, name in run_overloaded(SchedulingOptions(age_bound_s=5.0), 60.0)
    }
    assert 5.0 < bounded['normal'] + 2.0 <= 5.2 + 1e-9


@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.booleans(), st.booleans(), st.floats(0.01, 5)),
        min_size=1,
        max_size=40,
    ),
    st.floats(0, 120),
    st.integers(1, 8),
    st.sampled_from(sorted(POLICIES)),
)
def test_whoever_is_beyond_the_age_bound_goes_first(
    generations: list[tuple[float, bool, bool, float]],
    now_s: float,
    max_running: int,
    policy: str,
) -> None:
    options = SchedulingOptions(age_bound_s=10.0, admission='fixed')
    table, scheduler = make(options, policy=policy, max_running=max_running)
    waits_s = {}
    for number, (arrival_s, urgent, held, generation_s) in enumerate(generations):
        name = f'g{number}'
        add(table, name, arrival_s, URGENT if urgent else NORMAL, generation_s)
        if held:
            table.set(name, 'phase', Phase.HELD)
        else:
            waits_s[name] = now_s - arrival_s
    chosen = scheduler.select(now_s)
    assert len(chosen) == len(set(chosen)) == min(max_running, len(waits_s))
    beyond = sorted((wait_s for wait_s in waits_s.values() if wait_s > 10.0), reverse=True)
    first = [waits_s[name] for name in chosen[: len(beyond)]]
    assert first == pytest.approx(beyond[: len(chosen)], abs=1e-3)


@given(
    st.lists(
        st.tuples(st.sampled_from([NORMAL, URGENT]), st.floats(0.01, 2)), min_size=1, max_size=6
    )
)
def test_all_late_are_served_in_smiths_order(jobs: list[tuple[TimeUtility, float]]) -> None:
    table, scheduler = make(SchedulingOptions(age_bound_s=None))
    by_name = {}
    for number, (utility, generation_s) in enumerate(jobs):
        name = f'g{number}'
        by_name[name] = utility, generation_s
        add(table, name, 0.0, utility, generation_s)
    order = []
    while len(table):
        (name,) = scheduler.select(100.0)
        order.append(by_name[name])
        table.remove(name)

    def loss(sequence: Sequence[tuple[TimeUtility, float]]) -> float:
        total, clock_s = 0.0, 0.0
        for utility, generation_s in sequence:
            clock_s += generation_s
            total -= utility.slope_per_s * clock_s
        return total

    best = min(map(loss, itertools.permutations(jobs)))
    assert loss(order) == pytest.approx(best)


def test_without_interruption_a_running_one_keeps_its_place() -> None:
    for interrupts, expected in ((True, ['urgent']), (False, ['normal'])):
        table, scheduler = make(SchedulingOptions(interrupts=interrupts))
        add(table, 'normal', 0.0)
        table.set('normal', 'phase', Phase.RUNNING)
        add(table, 'urgent', 0.1, URGENT)
        assert scheduler.select(0.1) == expected


def test_the_printed_rule_admits_one_and_only_if_the_most_urgent_bears_it() -> None:
    times = StepTimes()
    for batch in (1, 2):
        times.observe(batch, 0.02)
    limit = PrintedBatchLimit(4, times, network_s=0.01)
    waiting = [(5.0, 10)] * 3
    assert limit.count([], 0) == 0
    assert limit.count(waiting, 0) == 1
    assert limit.count([(5.0, 10), *waiting], 1) == 2
    # 10 tokens of 20 ms are 200 ms; 10 ms of network come on top.
    assert limit.count([(0.215, 10), *waiting], 1) == 2
    assert limit.count([(0.205, 10), *waiting], 1) == 1
    assert limit.count([(5.0, 10), (-1.0, 3), *waiting], 2) == 2
    assert limit.count([(5.0, 10)] * 7, 4) == 4


def test_profiled_costs_do_not_learn() -> None:
    costs = ProfiledCosts(0.09)
    costs.observe('arm', NORMAL, first=True, generation_s=3.0, tokens=50)
    assert costs.expected_s('arm', NORMAL, first=True) == 0.09
    assert costs.worst_tokens('arm', NORMAL, first=False) == 10


@pytest.mark.parametrize(
    'bad',
    [
        {'admission': 'all'},
        {'age_bound_s': 0.0},
        {'age_bound_s': float('nan')},
        {'profiled_generation_s': -1.0},
        {'network_s': -0.1},
    ],
)
def test_an_option_out_of_range_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(bad))):
        SchedulingOptions(**bad)
