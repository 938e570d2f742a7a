"""Planners that share replicas on virtual time: one seed, one log, nothing lost or done twice."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.timelyllm.event_log import EventLog
from benchmarks.timelyllm.thousands import HARDWARE, PLANNERS, REPLICAS, SYSTEM
from benchmarks.workloads import check_all_succeeded, compose, fleet_spec, run_workload
from timely_llm_ros.engines import EngineStateChanged, SegmentGenerated
from timely_llm_ros.planner import PlannerEvent, SegmentReady

# So many that the last replica pays, which has to compute the shared prefix first.
ROBOTS, DURATION_S = 800, 10.0


class Run:
    """A small fleet's run, and what was seen of it."""

    def __init__(self, seed: int) -> None:
        self.log = EventLog()
        self.ready: Counter[tuple[str, int]] = Counter()
        self.generated = 0
        self.used: set[str] = set()
        workload = compose(fleet_spec(ROBOTS, DURATION_S), seed)
        self.tasks = len(workload.tasks)
        self.records = run_workload(
            workload,
            SYSTEM,
            hardware=HARDWARE,
            on_event=self._see,
            on_engine_event=self._hear,
            replicas=REPLICAS,
            planners=PLANNERS,
        )

    def _see(self, event: PlannerEvent) -> None:
        self.log.add(event)
        if isinstance(event, SegmentReady):
            self.ready[event.task_id, event.segment.index] += 1

    def _hear(self, event: object) -> None:
        if isinstance(event, SegmentGenerated):
            self.generated += 1
        elif isinstance(event, EngineStateChanged):
            self.used |= {one.url for one in event.state.servers if one.generations}


@pytest.fixture(scope='module')
def run() -> Run:
    return Run(1)


def test_one_seed_gives_one_log_and_another_seed_another(run: Run) -> None:
    assert run.log.sha256 == Run(1).log.sha256
    assert run.log.sha256 != Run(2).log.sha256


def test_every_task_is_done_once_and_every_replica_has_some(run: Run) -> None:
    check_all_succeeded(run.records)
    assert len(run.records) == run.tasks > 100
    assert set(run.ready.values()) == {1}
    # None goes to a planner that has not asked for it.
    assert run.generated == len(run.ready)
    assert len(run.used) == REPLICAS
