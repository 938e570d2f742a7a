"""A fleet is halted, with a planner and without, and stays so until it is released."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.ros.programs import LIMIT_S, PYTHONPATH, ROOT, wait_for
from support.ros.ros_client import ASK_AGAIN_S, SUCCEEDED
from timely_llm_ros.action import ExecuteSegment, PlanTask
from timely_llm_ros.msg import TaskEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.ros.fleet import Fleet

LONG = 'takeoff;delay(10000);land;'
ROBOTS = {'drone_1': 'tello', 'drone_2': 'tello'}


@pytest.fixture
def fleet(
    start_fleet: Callable[..., Fleet],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Fleet:
    monkeypatch.setenv('ROS_HOME', str(tmp_path_factory.mktemp('ros_home')))
    return start_fleet(robots=ROBOTS, together=False, executor={'time_scale': 1.0})


def command(fleet: Fleet, *arguments: str) -> tuple[int, list[str]]:
    """Run ``timely-llm`` in the fleet's namespace; return its exit code and lines."""
    done = subprocess.run(
        [
            *(sys.executable, str(ROOT / 'scripts' / 'timely-llm'), *arguments),
            *('--namespace', f'/{fleet.namespace}'),
        ],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env=os.environ | {'PYTHONPATH': PYTHONPATH},
    )
    assert 'Traceback' not in done.stderr
    return done.returncode, sorted(done.stdout.splitlines())


def segment_code(fleet: Fleet) -> int:
    """Return how a segment ends that is sent to the first robot by hand."""
    return int(fleet.segment(text='delay(100);').result()[1].error_code)


def test_a_halted_fleet_takes_nothing_until_it_is_released(fleet: Fleet) -> None:
    goal = fleet.plan(LONG)
    fleet.wait_started('delay(10000)')
    code, lines = command(fleet, 'halt')
    assert code == 0, lines
    assert [line.split(' (')[0].split(maxsplit=1) for line in lines] == [
        ['drone_1', 'stopped'], ['drone_2', 'was at rest'],
    ]  # fmt: skip
    fleet.wait_safe()
    result = goal.result()[1]
    assert result.error_code == PlanTask.Result.EXECUTION_FAILED
    assert "robot 'drone_1' is halted" in result.error_msg
    wait_for(lambda: fleet.states['drone_2'][-1].halted, 'a state that says so')
    refused = fleet.plan('land;', 'drone_2').result()[1]
    assert refused.error_code == PlanTask.Result.ROBOT_UNAVAILABLE
    assert "robot 'drone_2' is halted: expected its release" in refused.error_msg
    # Without a planner, and for an executor that is started anew, it is the same.
    assert fleet.planner is not None
    fleet.planner.signal(signal.SIGKILL)
    fleet.planner.wait()
    assert segment_code(fleet) == ExecuteSegment.Result.HALTED
    fleet.executors[0].signal(signal.SIGKILL)
    fleet.executors[0].wait()
    fleet.executors[0] = fleet.start_executor(['drone_1'])
    wait_for(lambda: 'halted, by its last executor' in fleet.executors[0].output, 'the new one')
    before = len(fleet.started())
    assert command(fleet, 'release', 'drone_2')[0] == 0
    # The one that was killed is known for a while longer than it lives, and gets segments too.
    wait_for(lambda: fleet.segment(text='delay(100);').is_answered(ASK_AGAIN_S), 'the new one')
    assert segment_code(fleet) == ExecuteSegment.Result.HALTED
    assert len(fleet.started()) == before
    code, lines = command(fleet, 'release')
    assert code == 0, lines
    assert 'released' in lines[0]
    assert 'was not halted' in lines[1]
    assert 'no planner answers' in lines[2]
    assert segment_code(fleet) == ExecuteSegment.Result.NONE


def test_a_robot_that_is_not_reached_is_named(fleet: Fleet) -> None:
    goal = fleet.plan(LONG)
    fleet.wait_event(goal, TaskEvent.SEGMENT_STARTED)
    fleet.executors[1].signal(signal.SIGKILL)
    fleet.executors[1].wait()
    code, lines = command(fleet, 'halt')
    assert code == 1
    assert 'robots that are seen here: drone_1' in command(fleet, 'release', 'drone_9')[1][1]
    assert lines[0].startswith('drone_1')
    assert 'stopped' in lines[0]
    assert lines[1].split() == ['drone_2', 'NOT', 'REACHED', 'within', '10', 's']
    fleet.wait_safe()
    assert command(fleet, 'release', 'drone_1')[0] == 0
    wait_for(lambda: not fleet.states['drone_1'][-1].halted, 'its release')
    assert fleet.plan('delay(100);').result()[0] == SUCCEEDED


def test_where_no_robot_is_it_says_so() -> None:
    done = subprocess.run(
        [
            *(sys.executable, str(ROOT / 'scripts' / 'timely-llm'), 'halt'),
            *('--namespace', '/nobody_flies_here', '--wait', '0.5'),
        ],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 3
    assert 'no robot answers within 0.5 s' in done.stderr
