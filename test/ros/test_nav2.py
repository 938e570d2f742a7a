"""A robot under Nav2, which is mocked by servers of its actions in a process of their own."""

from __future__ import annotations

import math
import os
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from geometry_msgs.msg import Point
from support.ros.calls_fleet import CallsFleet
from support.ros.programs import ROOT, Program, wait_for
from support.ros.ros_client import ABORTED, SUCCEEDED, Goal
from timely_llm_ros.action import PlanTask
from timely_llm_ros.msg import SceneObject, TaskEvent

from timely_llm_ros.execution import SegmentCode
from timely_llm_ros.ros import GoalClient
from tools import robot_interfaces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.ros.ros_client import Client
    from timely_llm_ros.action import ExecuteSegment

ROBOT = 'rover_1'


class Nav2Fleet(CallsFleet):
    """One robot under mocked servers of Nav2, before it a desk."""

    def __init__(self, client: Client, folder: Path, **options: Any) -> None:
        options = {'skill_set': 'nav2', 'calls': 'nav2', 'silence_s': 1.5, **options}
        super().__init__(client, folder, ROBOT, **options)

    def begin(self, text: str) -> Goal:
        scene = [SceneObject(name='desk_1', kind='desk', position=Point(x=3.0, y=4.0))]
        return self.segment(ROBOT, text=text, objects=scene)

    def run(self, text: str) -> ExecuteSegment.Result:
        return self.begin(text).result()[1]


@pytest.fixture(scope='module')
def nav2_types() -> None:
    robot_interfaces.install('nav2_msgs')


@pytest.fixture(scope='module')
def rover(
    nav2_types: None, client: Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nav2Fleet]:
    """A robot that segments are sent to by hand."""
    # Nobody is missed who sends segments by hand.
    fleet = Nav2Fleet(
        client,
        tmp_path_factory.mktemp('nav2'),
        start_planner=False,
        executor={'planner_timeout_s': 0.0},
    )
    fleet.wait_ready()
    yield fleet
    fleet.close()


def test_each_skill_calls_its_action_with_what_the_plan_says(rover: Nav2Fleet) -> None:
    before = len(rover.servers.events)
    rover.servers.command('seconds 0.2')
    text = 'go_to(desk_1);drive(150);back_up(20);turn_right(90);wait(2);stop;'
    result = rover.run(text)
    assert result.error_code == SegmentCode.NONE, result.error_msg
    goals = {
        event['name'].rpartition('/')[2]: event['goal']
        for event in rover.servers.events[before:]
        if event['event'] == 'goal'
    }
    pose = goals['navigate_to_pose']['pose']
    assert pose['header']['frame_id'] == 'map'
    # Half a metre before the desk, facing it.
    assert pose['pose']['position'] == pytest.approx({'x': 2.7, 'y': 3.6, 'z': 0.0})
    assert pose['pose']['orientation']['z'] == pytest.approx(math.sin(math.atan2(4, 3) / 2))
    assert goals['drive_on_heading']['target']['x'] == 1.5
    assert goals['backup']['target']['x'] == pytest.approx(0.2)
    assert goals['spin']['target_yaw'] == pytest.approx(-math.pi / 2, abs=1e-6)
    assert goals['wait']['time'] == {'sec': 2, 'nanosec': 0}
    assert len(result.calls) == len(result.call_durations) == 6


def test_an_abort_says_what_the_server_says(rover: Nav2Fleet) -> None:
    rover.servers.command('abort 723 a wall is near')
    result = rover.run('drive(100);wait(1);')
    rover.servers.command('succeed')
    assert result.error_code == SegmentCode.SKILL_FAILED
    assert 'drive(100)' in result.error_msg
    assert 'error_code 723 (COLLISION_AHEAD)' in result.error_msg
    assert 'a wall is near' in result.error_msg


def test_a_rejected_goal_fails_the_skill(rover: Nav2Fleet) -> None:
    rover.servers.command('reject')
    result = rover.run('wait(1);')
    rover.servers.command('accept')
    assert result.error_code == SegmentCode.SKILL_FAILED
    assert 'rejected the goal' in result.error_msg


def test_what_the_server_expects_is_what_the_planner_is_told(rover: Nav2Fleet) -> None:
    rover.servers.command('seconds 60')
    goal = rover.begin('go_to(desk_1);')
    # By itself the skill set expects 28 s.
    wait_for(
        lambda: any(30 < f.expected_remaining.sec <= 60 for f in goal.feedback),
        'estimate of the server',
    )
    before = len(rover.servers.events)
    goal.cancel()
    goal.result()
    assert ('canceled', 'navigate_to_pose') in rover.servers.names(before)


def test_a_cancelled_segment_cancels_the_goal_and_takes_the_safe_action(rover: Nav2Fleet) -> None:
    rover.servers.command('seconds 60')
    before = len(rover.servers.events)
    goal = rover.begin('drive(300);wait(5);')
    rover.servers.wait_event('goal', 'drive_on_heading', before)
    goal.cancel()
    _, result = goal.result()
    assert result.error_code == SegmentCode.CANCELED
    rover.servers.wait_event('canceled', 'drive_on_heading', before)
    assert ('goal', 'wait') not in rover.servers.names(before)


def test_a_goal_of_somebody_else_is_cancelled_by_the_safe_action(rover: Nav2Fleet) -> None:
    from nav2_msgs.action import Spin

    rover.servers.command('seconds 60')
    before = len(rover.servers.events)
    name = rover.name(f'{ROBOT}/spin')
    client = rover.client.do(GoalClient, rover.client.node, Spin, name)
    wait_for(client.server_is_ready, 'spin')
    goal = Goal(rover.client, client, Spin.Goal(target_yaw=6.0))
    rover.servers.wait_event('goal', 'spin', before)
    assert rover.stop_robot(ROBOT).success
    rover.servers.wait_event('canceled', 'spin', before)
    goal.result()
    rover.client.do(client.destroy)


@pytest.mark.parametrize('how', ['die', 'hang', 'stall'])
def test_servers_without_feedback_are_a_lost_robot_until_they_are_back(
    rover: Nav2Fleet, how: str
) -> None:
    result = rover.lose_servers(how, lambda: rover.begin('drive(300);'), 'drive_on_heading')
    assert result.error_code == SegmentCode.ROBOT_LOST
    assert 'no feedback for 1.5 s' in result.error_msg
    result = rover.run('drive(100);')
    assert result.error_code == SegmentCode.NONE, result.error_msg


@pytest.fixture(scope='module')
def planned(
    nav2_types: None, client: Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nav2Fleet]:
    """A robot that a planner plans for."""
    fleet = Nav2Fleet(client, tmp_path_factory.mktemp('planned'))
    fleet.wait_ready()
    yield fleet
    fleet.close()


@pytest.mark.parametrize('victim', ['worker', 'guard'])
def test_a_killed_executor_leaves_no_goal_running(planned: Nav2Fleet, victim: str) -> None:
    planned.servers.command('seconds 60')
    before = len(planned.servers.events)
    goal = planned.plan('drive(300);wait(60);', ROBOT)
    planned.servers.wait_event('goal', 'drive_on_heading', before)
    executor = planned.executors[0]
    worker = executor.children[0]
    os.kill(worker if victim == 'worker' else executor.pid, signal.SIGKILL)
    planned.servers.wait_event('canceled', 'drive_on_heading', before)
    status, result = goal.result()
    assert status == ABORTED
    codes = {PlanTask.Result.ROBOT_UNAVAILABLE}
    if victim == 'guard':
        # The worker is alive to answer for its goals.
        codes.add(PlanTask.Result.EXECUTION_FAILED)
    assert result.error_code in codes, result.error_msg
    executor.wait()
    if victim == 'worker':
        assert 'safe action issued' in executor.output
    planned.wait_lost(ROBOT)
    planned.executors[0] = planned.start_executor([ROBOT])
    planned.servers.command('seconds 0.1')

    def works() -> bool:
        status, result = planned.plan('wait(1);', ROBOT).result()
        codes = (PlanTask.Result.ROBOT_UNAVAILABLE,)
        assert status == SUCCEEDED or result.error_code in codes, result
        return bool(status == SUCCEEDED)

    wait_for(works, 'the robot works')


def test_a_killed_server_fails_the_task_and_the_robot_is_back_with_it(planned: Nav2Fleet) -> None:
    planned.servers.command('seconds 60')
    before = len(planned.servers.events)
    goal = planned.plan('drive(300);wait(60);', ROBOT)
    planned.servers.wait_event('goal', 'drive_on_heading', before)
    planned.servers.kill()
    status, result = goal.result()
    assert (status, result.error_code) == (ABORTED, PlanTask.Result.ROBOT_UNAVAILABLE)
    assert "segment 0, 'drive(300);'" in result.error_msg
    assert 'drive_on_heading' in result.error_msg
    planned.servers.restart()
    planned.servers.command('seconds 0.1')

    def works() -> bool:
        return bool(planned.plan('wait(1);', ROBOT).result()[0] == SUCCEEDED)

    wait_for(works, 'the robot works')
    assert planned.events_of(goal, TaskEvent.ENDED)


@pytest.mark.parametrize(
    ('old', 'new', 'reason'),
    [
        ('', '', r":5: action 'rover_1/navigate_to_pose': no server at /refused"),
        ('{pose: $target}', '{poses: $target}', r':7: .*NavigateToPose_Goal has no field .poses.'),
        ('action/Wait', 'action/Weight', r':34: .*actions of nav2_msgs: BackUp, .*, Wait$'),
        ('nav2_msgs/action/Wait', 'nav9_msgs/action/Wait', r":34: .*package 'nav9_msgs' with ac"),
    ],
)
def test_an_executor_that_cannot_call_says_where_and_why(
    nav2_types: None, tmp_path: Path, old: str, new: str, reason: str
) -> None:
    text = (ROOT / 'config' / 'calls' / 'nav2.yaml').read_text(encoding='utf-8')
    calls, drivers = tmp_path / 'calls.yaml', tmp_path / 'robots.yaml'
    calls.write_text(text.replace(old, new, 1), encoding='utf-8')
    entry = {'driver': 'ros', 'calls_file': str(calls), 'server_limit_s': 0.5}
    drivers.write_text(yaml.safe_dump({ROBOT: entry}), encoding='utf-8')
    parameters = {'robot': ROBOT, 'skill_set': 'nav2', 'drivers_file': str(drivers)}
    executor = Program('executor', tmp_path, parameters, namespace=f'refused_{os.getpid()}')
    assert executor.wait() != 0
    assert re.search(r'executor: \S*calls.yaml' + reason, executor.output)
    assert 'Fatal' not in executor.output
