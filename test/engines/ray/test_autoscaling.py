"""How many replicas work asks for, by what they report."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from timely_llm_ros.engines.engine import EngineState
from timely_llm_ros.engines.ray import RayOptions
from timely_llm_ros.engines.ray.autoscaling import BUSY, WORK, wanted_replicas, work_of
from timely_llm_ros.errors import ConfigurationError


def told(*work: float, now: int = 3) -> int:
    reported = {WORK: {str(number): value for number, value in enumerate(work)}} if work else {}
    context = SimpleNamespace(aggregated_metrics=reported, target_num_replicas=now)
    wanted, state = wanted_replicas(context)
    assert state == {}
    return wanted


def test_what_robots_wait_for_is_work() -> None:
    state = EngineState(
        running=4, suspended=50, held=50, queued=0, kv_tokens=0, kv_capacity_tokens=1, step_s=0.0,
        generations=(), background=9, waited_for=2,
    )  # fmt: skip
    assert work_of(state, 4) == {WORK: 0.5}
    assert work_of(None, 4) == {WORK: 0.0}


@pytest.mark.parametrize(
    ('work', 'wanted'),
    [
        ((0.0, 0.0), 1),
        ((BUSY, BUSY), 2),
        ((1.0, 1.0), 4),
        ((3.0,), 5),
        ((0.1, 0.1, 0.1), 1),
        ((), 3),
    ],
)
def test_each_replica_is_to_be_as_busy_as_wanted(work: tuple[float, ...], wanted: int) -> None:
    assert told(*work) == wanted


def test_fewer_at_most_than_at_first_are_refused() -> None:
    with pytest.raises(ConfigurationError, match='most_replicas 2: expected 0, or 3'):
        RayOptions(replicas=3, most_replicas=2)
