"""Robots that the shipped model can plan for: a drone under Aerostack2, a rover under Nav2."""

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


@pytest.fixture(scope='module', params=['drone', 'rover'])
def robot(
    request: pytest.FixtureRequest, client: Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CallsFleet]:
    """A robot that segments are sent to by hand."""
    package, skill_set, calls = {
        'drone': ('as2_msgs', 'tello', 'aerostack2'),
        'rover': ('nav2_msgs', 'rover', 'rover'),
    }[request.param]
    robot_interfaces.install(package)
    # Nobody is missed who sends segments by hand.
    fleet = CallsFleet(
        client,
        tmp_path_factory.mktemp(request.param),
        f'{request.param}_1',
        skill_set=skill_set,
        calls=calls,
        silence_s=1.5,
        driver={'perception': 'simulated'},
        executor={'planner_timeout_s': 0.0},
        start_planner=False,
    )
    fleet.wait_ready()
    yield fleet
    fleet.close()


def begin(robot: CallsFleet, text: str) -> Goal:
    (name,) = robot.robots
    scene = [SceneObject(name='desk_1', kind='desk', position=Point(x=3.0, y=4.0, z=0.5))]
    return robot.segment(name, text=text, objects=scene)


def goals_of(robot: CallsFleet, text: str) -> list[tuple[str, Any]]:
    """Have a plan executed; return what was asked of which server."""
    robot.servers.command('seconds 0.1')
    before = len(robot.servers.events)
    result = begin(robot, text).result()[1]
    assert result.error_code == SegmentCode.NONE, result.error_msg
    return [
        (event['name'].rpartition('/')[2], event.get('goal') or event.get('request'))
        for event in robot.servers.events[before:]
        if event['event'] in ('goal', 'request')
    ]


def is_drone(robot: CallsFleet) -> bool:
    return 'drone_1' in robot.robots


def action_of(robot: CallsFleet) -> str:
    """Return the action by which it goes somewhere."""
    return 'GoToBehavior' if is_drone(robot) else 'navigate_to_pose'


def test_a_plan_of_the_shipped_model_goes_out_and_comes_back(robot: CallsFleet) -> None:
    plan = 'takeoff;goto(desk_1);take_picture;log("desk found");land;'
    asked = goals_of(robot, plan)
    if not is_drone(robot):
        undocked, gone, docked = asked
        assert (undocked[0], gone[0], docked[0]) == (
            'undock_robot', 'navigate_to_pose', 'dock_robot',
        )  # fmt: skip
        assert gone[1]['pose']['pose']['position']['x'] == pytest.approx(2.7)
        assert docked[1]['dock_id'] == 'home_dock'
        return
    armed, offboard, up, gone, down = asked
    assert armed == ('set_arming_state', {'data': True})
    assert offboard == ('set_offboard_mode', {'data': True})
    assert up == ('TakeoffBehavior', {'takeoff_height': 1.0, 'takeoff_speed': 0.5})
    assert gone[0] == 'GoToBehavior'
    target = gone[1]['target_pose']
    assert target['header']['frame_id'] == 'map'
    # A metre before the desk and a metre above it, with the camera ahead.
    assert target['point'] == pytest.approx({'x': 2.4, 'y': 3.2, 'z': 1.5})
    assert gone[1]['yaw']['mode'] == 1
    assert down[0] == 'LandBehavior'


def test_moves_and_turns_are_relative_to_the_robot(robot: CallsFleet) -> None:
    asked = goals_of(robot, 'move_forward(50);move_backward(20);turn_cw(90);turn_ccw(45);')
    if not is_drone(robot):
        assert [name for name, _ in asked] == ['drive_on_heading', 'backup', 'spin', 'spin']
        angles = [goal['target_yaw'] for _, goal in asked[2:]]
        assert angles == pytest.approx([-math.pi / 2, math.pi / 4], abs=1e-6)
        return
    assert {goal['target_pose']['header']['frame_id'] for _, goal in asked} == {'drone_1/base_link'}
    assert [goal['target_pose']['point']['x'] for _, goal in asked] == [0.5, -0.2, 0.0, 0.0]
    assert [goal['yaw']['mode'] for _, goal in asked] == [0, 0, 2, 2]
    angles = [goal['yaw']['angle'] for _, goal in asked[2:]]
    assert angles == pytest.approx([-math.pi / 2, math.pi / 4], abs=1e-6)


def test_a_drone_moves_to_all_sides_and_looks_around(robot: CallsFleet) -> None:
    if not is_drone(robot):
        assert [name for name, _ in goals_of(robot, 'scan;')] == ['spin']
        return
    asked = goals_of(robot, 'move_left(30);move_right(40);move_up(50);move_down(60);scan;')
    points = [goal['target_pose']['point'] for _, goal in asked]
    assert [(point['y'], point['z']) for point in points[:4]] == [
        (0.3, 0.0), (-0.4, 0.0), (0.0, 0.5), (0.0, -0.6),
    ]  # fmt: skip
    assert sum(goal['yaw']['angle'] for _, goal in asked[4:]) == pytest.approx(-6.2832)


def test_a_failure_says_what_the_server_says(robot: CallsFleet) -> None:
    robot.servers.command('abort 906 no charge')
    result = begin(robot, 'land;').result()[1]
    robot.servers.command('succeed')
    assert result.error_code == SegmentCode.SKILL_FAILED
    said = 'land_success False' if is_drone(robot) else 'error_code 906 (FAILED_TO_CHARGE)'
    assert said in result.error_msg


def test_a_wait_is_no_goal_and_is_cancelled_like_one(robot: CallsFleet) -> None:
    before = len(robot.servers.events)
    goal = begin(robot, 'delay(10000);move_forward(50);')
    goal.wait_accepted()
    goal.cancel()
    assert goal.result()[1].error_code == SegmentCode.CANCELED
    assert not [e for e in robot.servers.events[before:] if e['event'] == 'goal']


def test_a_rejected_goal_fails_the_skill(robot: CallsFleet) -> None:
    robot.servers.command('reject')
    result = begin(robot, 'goto(desk_1);').result()[1]
    robot.servers.command('accept')
    assert result.error_code == SegmentCode.SKILL_FAILED
    assert f"{action_of(robot)}' rejected the goal" in result.error_msg


@pytest.mark.parametrize('how', ['die', 'hang', 'stall'])
def test_servers_without_feedback_are_a_lost_robot_until_they_are_back(
    robot: CallsFleet, how: str
) -> None:
    result = robot.lose_servers(how, lambda: begin(robot, 'goto(desk_1);'), action_of(robot))
    assert result.error_code == SegmentCode.ROBOT_LOST, result.error_msg
    assert 'no feedback for 1.5 s' in result.error_msg
    assert goals_of(robot, 'goto(desk_1);')


def test_a_stop_ends_the_motion(robot: CallsFleet) -> None:
    robot.servers.command('seconds 60')
    (name,) = robot.robots
    before = len(robot.servers.events)
    goal = begin(robot, 'goto(desk_1);')
    robot.servers.wait_event('goal', action_of(robot), before)
    assert robot.stop_robot(name).success
    robot.servers.wait_event('canceled', action_of(robot), before)
    assert goal.result()[1].error_code == SegmentCode.CANCELED


@pytest.mark.parametrize('victim', ['guard', 'worker'])
def test_a_killed_executor_ends_the_motion(robot: CallsFleet, victim: str) -> None:
    output = robot.kill_executor(victim, lambda: begin(robot, 'goto(desk_1);'), action_of(robot))
    said = {'worker': 'guard: safe action issued', 'guard': 'worker: the guard is gone'}
    assert said[victim] in output
