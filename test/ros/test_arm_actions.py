"""Arms whose skills are actions: of ros2_control's controllers, and of MoveIt's move_group."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from geometry_msgs.msg import Point
from support.ros.calls_fleet import CallsFleet
from timely_llm_ros.msg import SceneObject

from timely_llm_ros.execution import SegmentCode
from tools import robot_interfaces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.ros.ros_client import Client, Goal

ROBOT = 'arm_1'


@pytest.fixture(scope='module', params=['ros2_control', 'moveit'])
def arm(
    request: pytest.FixtureRequest, client: Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CallsFleet]:
    """An arm that segments are sent to by hand, under ros2_control or under MoveIt."""
    for package in ('control_msgs', 'shape_msgs', 'moveit_msgs'):
        robot_interfaces.install(package)
    # Nobody is missed who sends segments by hand.
    fleet = CallsFleet(
        client,
        tmp_path_factory.mktemp(request.param),
        ROBOT,
        skill_set={'moveit': 'arm'}.get(request.param, request.param),
        calls=request.param,
        driver={'frame': 'panda_link0'},
        # The limit of a skill is all that ends a wait for MoveIt.
        executor={'planner_timeout_s': 0.0, 'timeout_factor': 1.0, 'timeout_margin_s': 1.5},
        start_planner=False,
    )
    fleet.wait_ready()
    yield fleet
    fleet.close()


def begin(arm: CallsFleet, text: str) -> Goal:
    scene = [SceneObject(name='cup_1', kind='cup', position=Point(x=0.4, y=0.1, z=0.05))]
    return arm.segment(ROBOT, text=text, objects=scene)


def motion_of(arm: CallsFleet) -> tuple[str, str, str]:
    """Return a skill that moves the arm, its action, and how its failure reads."""
    if arm.robots[ROBOT] == 'arm':
        return 'home', 'move_action', 'error_code.val -12 (GOAL_IN_COLLISION)'
    action = 'follow_joint_trajectory'
    return 'move_to(left)', action, 'error_code -4 (PATH_TOLERANCE_VIOLATED)'


def test_motions_and_gripper_are_goals_with_what_the_file_says(arm: CallsFleet) -> None:
    before = len(arm.servers.events)
    arm.servers.command('seconds 0.1')
    motion, action, _ = motion_of(arm)
    if action == 'move_action':
        motion = 'pick(cup_1)'
    result = begin(arm, f'{motion};close_gripper;').result()[1]
    assert result.error_code == SegmentCode.NONE, result.error_msg
    goals = [e['goal'] for e in arm.servers.events[before:] if e['event'] == 'goal']
    assert goals[-1]['command'] == {'position': 0.0, 'max_effort': 20.0}
    if action == 'move_action':
        opened, above, down, closed, lifted = goals[:-1]
        assert [goal['command']['position'] for goal in (opened, closed)] == [0.04, 0.0]
        heights_m = [position_of(goal)['z'] for goal in (above, down, lifted)]
        assert heights_m == pytest.approx([0.3, 0.15, 0.3])
        assert position_of(down) == pytest.approx({'x': 0.4, 'y': 0.1, 'z': 0.15})
        (constraints,) = down['request']['goal_constraints']
        (position,) = constraints['position_constraints']
        assert position['header']['frame_id'] == 'panda_link0'
        assert position['constraint_region']['primitives'][0]['dimensions'] == [0.01]
        (orientation,) = constraints['orientation_constraints']
        assert orientation['orientation'] == {'x': 1.0, 'y': 0.0, 'z': 0.0, 'w': 0.0}
        assert down['request']['start_state']['is_diff']
    else:
        trajectory = goals[0]['trajectory']
        (point,) = trajectory['points']
        assert trajectory['joint_names'] == [f'joint_{number}' for number in range(1, 7)]
        assert point['positions'] == [0.8, -0.6, 1.2, 0.0, 1.0, 0.0]
        assert point['time_from_start'] == {'sec': 4, 'nanosec': 0}


def position_of(goal: Any) -> Any:
    """Return where a goal of MoveIt wants the hand."""
    (constraints,) = goal['request']['goal_constraints']
    (position,) = constraints['position_constraints']
    (pose,) = position['constraint_region']['primitive_poses']
    return pose['position']


def test_what_an_arm_pushes_it_follows_as_far_as_the_plan_says(arm: CallsFleet) -> None:
    if arm.robots[ROBOT] != 'arm':
        pytest.skip('ros2_control moves between fixed poses')
    before = len(arm.servers.events)
    arm.servers.command('seconds 0.1')
    result = begin(arm, 'push(cup_1,20);home;').result()[1]
    assert result.error_code == SegmentCode.NONE, result.error_msg
    events = arm.servers.events[before:]
    goals = [e['goal'] for e in events if (e['event'], e['name'][-6:]) == ('goal', 'action')]
    _, begun, ended, _, _ = goals
    ways_m = [math.hypot(*(position_of(goal)[axis] for axis in 'xy')) for goal in (begun, ended)]
    assert ways_m == pytest.approx([math.hypot(0.4, 0.1) - 0.1, math.hypot(0.4, 0.1) + 0.2])


def test_a_failed_motion_says_the_name_of_its_code(arm: CallsFleet) -> None:
    motion, _, failure = motion_of(arm)
    arm.servers.command('abort -12 no' if 'val' in failure else 'abort -4 no')
    result = begin(arm, f'{motion};').result()[1]
    arm.servers.command('succeed')
    assert result.error_code == SegmentCode.SKILL_FAILED
    assert failure in result.error_msg


@pytest.mark.parametrize('how', ['die', 'hang'])
def test_servers_that_die_or_hang_are_a_lost_robot_until_they_are_back(
    arm: CallsFleet, how: str
) -> None:
    motion, action, _ = motion_of(arm)
    result = arm.lose_servers(how, lambda: begin(arm, f'{motion};'), action)
    if action == 'move_action':
        # Its silence says nothing: the time limit of the skill ends the wait.
        assert result.error_code == SegmentCode.DRIVER_TIMEOUT, result.error_msg
    else:
        assert result.error_code == SegmentCode.ROBOT_LOST, result.error_msg
        assert 'no feedback for 1 s' in result.error_msg
    result = begin(arm, f'{motion};').result()[1]
    assert result.error_code == SegmentCode.NONE, result.error_msg


def test_a_stop_ends_the_motion(arm: CallsFleet) -> None:
    arm.servers.command('seconds 60')
    motion, action, _ = motion_of(arm)
    before = len(arm.servers.events)
    goal = begin(arm, f'{motion};')
    arm.servers.wait_event('goal', action, before)
    assert arm.stop_robot(ROBOT).success
    arm.servers.wait_event('canceled', action, before)
    assert goal.result()[1].error_code == SegmentCode.CANCELED


@pytest.mark.parametrize('victim', ['guard', 'worker'])
def test_a_killed_executor_ends_the_motion(arm: CallsFleet, victim: str) -> None:
    motion, action, _ = motion_of(arm)
    output = arm.kill_executor(victim, lambda: begin(arm, f'{motion};'), action)
    said = {'worker': 'guard: safe action issued', 'guard': 'worker: the guard is gone'}
    assert said[victim] in output
