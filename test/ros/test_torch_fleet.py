"""The whole of it: the shipped model plans in words for two robots, in five processes."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from support.process_table import command_line, is_running, may_take_precedence, policies
from support.ros.programs import wait_for
from support.ros.ros_client import ABORTED, SUCCEEDED
from timely_llm_ros.action import PlanTask
from timely_llm_ros.msg import GenerationState, TaskEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.ros.fleet import Fleet

pytestmark = pytest.mark.engines
Result = PlanTask.Result


@pytest.fixture(scope='module')
def fleet(start_fleet: Callable[..., Fleet]) -> Fleet:
    return start_fleet(
        robots={'drone_1': 'tello', 'arm_1': 'arm'},
        together=False,
        # As long as the engine may take to start anew, on a slow machine too.
        planner={'engine': 'torch', 'fallback_after_s': 120.0},
        executor={'time_scale': 0.1},
    )


def test_words_become_flight(fleet: Fleet) -> None:
    drone = fleet.plan('take a picture of the cat', objects=('cat_3', 'dog_1'))
    arm = fleet.plan('pick up the cup', 'arm_1', objects=('cup_2',))
    for goal in (drone, arm):
        status, result = goal.result()
        assert status == SUCCEEDED, result.error_msg
        assert result.tokens > result.segments > 0
    assert fleet.started('drone_1')
    assert fleet.started('arm_1')


def test_generation_waits_while_the_robot_acts(fleet: Fleet) -> None:
    before = len(fleet.scheduler)
    goal = fleet.plan(
        'fly to the cat, then to the dog, then to the bottle and take a picture',
        objects=('cat_3', 'dog_1', 'bottle_2'),
    )
    assert goal.result()[0] in (SUCCEEDED, ABORTED)
    phases = {
        generation.phase for state in fleet.scheduler[before:] for generation in state.generations
    }
    assert phases <= {
        GenerationState.QUEUED,
        GenerationState.RUNNING,
        GenerationState.SUSPENDED,
        GenerationState.HELD,
        GenerationState.ENDED,
    }
    assert fleet.scheduler[-1].model.endswith('timely-planner')
    assert fleet.scheduler[-1].step_time.nanosec > 0


def test_planner_and_robots_go_before_the_engine(fleet: Fleet) -> None:
    """Its loop and its ROS thread do; its engine's process is as any other."""
    assert fleet.planner is not None
    precedence = os.SCHED_RR | os.SCHED_RESET_ON_FORK
    expected = 2 if may_take_precedence() else 0
    assert policies(fleet.planner.pid).count(precedence) == expected
    for child in fleet.planner.children:
        assert not any(policy & os.SCHED_RR for policy in policies(child))
    for executor in fleet.executors:
        (worker,) = executor.children
        assert all(policy == os.SCHED_RR for policy in policies(worker)) == bool(expected)


def test_killed_engine_leaves_the_robot_to_its_fallback_plan(fleet: Fleet) -> None:
    assert fleet.planner is not None
    worker = next(
        pid for pid in fleet.planner.children if 'engines.torch.worker' in command_line(pid)
    )
    os.kill(worker, signal.SIGSTOP)
    goal = fleet.plan('take a picture of the cat', objects=('cat_3',))
    fleet.wait_event(goal, TaskEvent.ACCEPTED)
    os.kill(worker, signal.SIGKILL)
    status, result = goal.result()
    assert (status, result.error_code) == (ABORTED, Result.ENGINE_FAILED)
    assert result.error_msg.endswith("; its robot did the fallback plan 'hover;land;'")
    assert (result.segments, result.tokens, result.utility) == (2, 0, 0.0)
    assert fleet.started('drone_1')[-2:] == ['hover', 'land']
    # The trace says why, of each of its segments.
    kind = TaskEvent.SEGMENT_STARTED
    wait_for(lambda: len(fleet.events_of(goal, kind)) == 2, 'starts of both segments')
    why = [start.error_msg.split(':')[0] for start in fleet.events_of(goal, kind)]
    assert why == ['engine failed'] * 2

    def told() -> bool:
        values = [value for status in fleet.diagnostics[-1].status for value in status.values]
        return [value.value for value in values if value.key == 'fallback plans'] == ['1']

    wait_for(told, 'diagnostics that count it')
    # It comes back by itself, and meanwhile tasks wait for it.
    status, result = fleet.plan('take a picture of the cat', objects=('cat_3',)).result()
    assert status == SUCCEEDED, result.error_msg


def test_killed_planner_takes_its_engine_along(fleet: Fleet) -> None:
    assert fleet.planner is not None
    children = fleet.planner.children
    assert children
    fleet.planner.signal(signal.SIGKILL)
    wait_for(lambda: not any(map(is_running, children)), 'end of the engine')
