"""No schedule of a small workload, all of them tried, earns more than the bound says."""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from benchmarks.overload.goodput_bound import greatest_goodput
from benchmarks.workloads import NETWORK_S
from timely_llm_ros.engines.simulated import StepTimeModel, find_hardware
from timely_llm_ros.evaluation import SegmentShape, Workload, WorkloadTask
from timely_llm_ros.utility import NORMAL, URGENT, TimeUtility

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUPS = {'normal': NORMAL, 'urgent': URGENT, 'tight': TimeUtility(0.1, -20.0, 3.0)}
TIMES = StepTimeModel(decode_s=0.06, batch_factor=0.1, prefill_token_s=0.0, prefill_s=0.09)


def workload(tasks: Sequence[WorkloadTask], robots: int) -> Workload:
    return Workload('small', robots, GROUPS, tuple(tasks))


def task(at_s: float, group: str, tokens: int = 2, execution_s: float = 0.5) -> WorkloadTask:
    return WorkloadTask(at_s, group, group, (SegmentShape(tokens, execution_s),))


def best_of_all(tasks: Sequence[WorkloadTask], robots: int, max_running: int) -> float:
    """Try every schedule: whom each step serves, when the engine idles, who never begins.

    Robots take first segments in the order in which they are complete.
    """
    tokens = tuple(one.segments[0].tokens for one in tasks)

    @cache
    def best(now_s: float, left: tuple[int, ...], free_s: tuple[float, ...]) -> float:
        ready = [n for n, one in enumerate(tasks) if left[n] and one.at_s <= now_s + 1e-9]
        later = [one.at_s for n, one in enumerate(tasks) if left[n] and one.at_s > now_s + 1e-9]
        most = best(min(later), left, free_s) if later else 0.0
        for size in range(1, min(len(ready), max_running) + 1):
            for rows in itertools.combinations(ready, size):
                begun = sum(left[n] == tokens[n] for n in rows)
                decode_s = TIMES.decode_s * (1 + TIMES.batch_factor * (size - 1))
                end_s = now_s + begun * TIMES.prefill_s + decode_s
                after, free, earned = list(left), list(free_s), 0.0
                for n in rows:
                    after[n] -= 1
                    if not after[n]:
                        robot = min(range(robots), key=free.__getitem__)
                        start_s = max(end_s + NETWORK_S, free[robot])
                        earned += max(0.0, GROUPS[tasks[n].group].first(start_s - tasks[n].at_s))
                        free[robot] = start_s + tasks[n].execution_s
                most = max(most, earned + best(round(end_s, 6), tuple(after), tuple(free)))
        return most

    return best(0.0, tokens, (0.0,) * robots)


tasks = st.builds(
    task,
    st.sampled_from([0.0, 0.0, 0.1, 0.35]),
    st.sampled_from(list(GROUPS)),
    st.integers(1, 2),
    st.sampled_from([0.1, 1.0]),
)


@examples(60)
@given(st.lists(tasks, min_size=1, max_size=4), st.integers(1, 2), st.integers(1, 3))
def test_no_schedule_earns_more(found: list[WorkloadTask], robots: int, max_running: int) -> None:
    found = sorted(found, key=lambda one: one.at_s)
    bound = greatest_goodput(workload(found, robots), TIMES, max_running)
    assert best_of_all(found, robots, max_running) <= bound + 1e-6


def test_what_one_task_alone_earns_is_the_bound() -> None:
    for group, utility in GROUPS.items():
        alone = utility.first(TIMES.prefill_s + 2 * TIMES.decode_s + NETWORK_S)
        assert greatest_goodput(workload([task(0.0, group)], 1), TIMES, 8) == pytest.approx(alone)
        assert best_of_all([task(0.0, group)], 1, 8) == pytest.approx(alone)


def test_more_than_fits_is_refused_and_the_best_are_kept() -> None:
    few = [task(0.0, 'urgent') for _ in range(3)]
    crowd = few + [task(0.0, 'normal') for _ in range(60)]
    times = find_hardware('toy').step_time
    least, most = (greatest_goodput(workload(some, 100), times, 8) for some in (few, crowd))
    assert least > 3 * 1.9
    # In the 1.5 s of a normal task's window fit at most 1.5 s / 36 ms prompts and their tokens.
    assert least < most < 3 * 2.0 + 1.5 / 0.036


def test_a_robot_that_is_busy_earns_nothing_more() -> None:
    crowd = [task(0.0, 'normal', execution_s=30.0) for _ in range(9)]
    times = find_hardware('toy').step_time
    assert greatest_goodput(workload(crowd, 1), times, 8) < 1.1
    assert greatest_goodput(workload(crowd, 9), times, 8) > 8.0


def test_a_utility_that_does_not_fall_has_no_window() -> None:
    flat = Workload('flat', 1, {'flat': TimeUtility(1.0, 0.0, 1.0)}, (task(0.0, 'flat'),))
    with pytest.raises(ValueError, match='expected one below 0'):
        greatest_goodput(flat, TIMES, 8)
    assert greatest_goodput(workload([], 1), TIMES, 8) == 0.0
