"""No order in which robots do the plans that were asked of them earns more than the bound says."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from benchmarks.overload.named_bound import greatest_named
from benchmarks.workloads import NETWORK_S
from timely_llm_ros.engines.simulated import StepTimeModel
from timely_llm_ros.evaluation import SegmentShape, WorkloadTask
from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUPS = {'normal': NORMAL, 'urgent': URGENT}
TIMES = StepTimeModel(decode_s=0.06, batch_factor=0.1, prefill_token_s=0.0, prefill_s=0.09)


def task(at_s: float, group: str, execution_s: float) -> WorkloadTask:
    return WorkloadTask(at_s, group, group, (SegmentShape(2, execution_s),))


def best_of_all(tasks: Sequence[WorkloadTask]) -> float:
    """Try every choice and order of one robot's tasks, each begun as soon as it can be."""
    alone_s = TIMES.prefill_s + 2 * TIMES.decode_s + NETWORK_S
    most = 0.0
    for size in range(1, len(tasks) + 1):
        for order in itertools.permutations(tasks, size):
            free_s = earned = 0.0
            for one in order:
                start_s = max(free_s, one.at_s + alone_s)
                earned += max(0.0, GROUPS[one.group].first(start_s - one.at_s))
                free_s = start_s + one.execution_s
            most = max(most, earned)
    return most


tasks = st.lists(
    st.builds(
        task,
        st.floats(0.0, 6.0).map(lambda at_s: round(at_s, 3)),
        st.sampled_from(list(GROUPS)),
        st.sampled_from([0.01, 0.4, 1.5, 2.5, 4.0]),
    ),
    max_size=5,
)


@examples(200)
@given(tasks)
def test_no_order_earns_more(found: list[WorkloadTask]) -> None:
    bound = greatest_named([('r', one) for one in found], GROUPS, TIMES)
    assert best_of_all(found) <= bound + 1e-9


@given(st.lists(st.builds(task, st.floats(0, 6), st.just('urgent'), st.just(2.0)), max_size=5))
def test_where_plans_are_longer_than_their_windows_the_bound_is_what_can_be_earned(
    found: list[WorkloadTask],
) -> None:
    bound = greatest_named([('r', one) for one in found], GROUPS, TIMES, grid_s=0.001)
    assert bound == pytest.approx(best_of_all(found), abs=0.05)


def test_robots_do_their_plans_side_by_side() -> None:
    crowd = [task(0.0, 'urgent', 3.0) for _ in range(4)]
    one = greatest_named([('r', each) for each in crowd], GROUPS, TIMES)
    four = greatest_named([(f'r{n}', each) for n, each in enumerate(crowd)], GROUPS, TIMES)
    assert four == pytest.approx(4 * one)
