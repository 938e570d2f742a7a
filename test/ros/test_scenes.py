"""What the planner knows of a robot's surroundings: from detections and goals, for tasks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from geometry_msgs.msg import Point
from support.ros.programs import wait_for
from support.ros.ros_client import SUCCEEDED
from timely_llm_ros.action import PlanTask
from timely_llm_ros.msg import Detections, TaskEvent
from timely_llm_ros.srv import DescribeScene

from tools import robot_interfaces

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.ros.fleet import Fleet
    from timely_llm_ros.msg import SceneObject

ROBOTS = {'drone_1': 'tello', 'drone_2': 'tello', 'reader_1': 'chatbot'}


@pytest.fixture(scope='module')
def fleet(start_fleet: Callable[..., Fleet]) -> Fleet:
    robot_interfaces.install('vision_msgs')
    return start_fleet(robots=ROBOTS, planner={'scene_forget_s': 600.0})


def described(fleet: Fleet, robot: str) -> dict[str, SceneObject]:
    request = DescribeScene.Request(robot=robot)
    answer = fleet.client.service(DescribeScene, fleet.name('describe_scene'), request)
    assert answer.success, answer.message
    return {item.name: item for item in answer.scene}


def kv_cache(fleet: Fleet) -> dict[str, str]:
    """Return what diagnostics said last of the engine's KV."""
    return {
        pair.key: pair.value
        for status in (fleet.diagnostics[-1].status if fleet.diagnostics else ())
        if status.name.endswith(': KV cache')
        for pair in status.values
    }


def tell_until(
    fleet: Fleet, robot: str, topic: str, message: Any, is_known: Callable[[Any], bool]
) -> dict[str, SceneObject]:
    """Publish a message again and again until the planner's scene is as expected."""
    name = fleet.name(f'{robot}/{topic}')
    sender = fleet.client.node.create_publisher(type(message), name, 1)

    def found() -> dict[str, SceneObject] | None:
        sender.publish(message)
        scene = described(fleet, robot)
        return scene if is_known(scene) else None

    scene: dict[str, SceneObject] = wait_for(found, f'scene of {robot}')
    fleet.client.node.destroy_publisher(sender)
    return scene


def test_a_task_without_a_scene_is_planned_for_what_is_seen(fleet: Fleet) -> None:
    message = Detections(labels=['cat', 'Coffee mug', 'dog'], scores=[0.9, 0.8, 0.9])
    message.positions = [Point(x=1.0), Point(x=2.0, y=-1.0), Point(x=math.nan)]
    message.header.frame_id = 'map'
    known = tell_until(fleet, 'drone_1', 'detections', message, lambda scene: len(scene) == 2)
    assert set(known) == {'cat_1', 'coffee_mug_1'}
    assert known['cat_1'].header.frame_id == 'map'
    assert known['cat_1'].header.stamp.sec > 0
    assert known['coffee_mug_1'].position == Point(x=2.0, y=-1.0)
    wait_for(lambda: kv_cache(fleet).get('warm scenes') == '1', 'a warm scene')
    goal = fleet.plan('takeoff;goto(coffee_mug_1);land;')
    status, result = goal.result()
    assert (status, result.error_msg) == (SUCCEEDED, '')
    accepted = fleet.wait_event(goal, TaskEvent.ACCEPTED)
    assert {item.name for item in accepted.scene} == set(known)
    wait_for(lambda: kv_cache(fleet)['tasks that found a warm scene'] == '1', 'its use')
    # The others know nothing of it.
    assert not described(fleet, 'drone_2')
    status, result = fleet.plan('takeoff;goto(cat_1);land;', 'drone_2').result()
    assert result.error_code == PlanTask.Result.BAD_PLAN


def test_a_chat_knows_what_its_goal_says_and_nothing_else(fleet: Fleet) -> None:
    message = Detections(labels=['cat'], scores=[0.9], positions=[Point(x=1.0)])
    tell_until(fleet, 'reader_1', 'detections', message, lambda scene: 'cat_1' in scene)
    goal = fleet.plan('Meow.', 'reader_1')
    assert not fleet.wait_event(goal, TaskEvent.ACCEPTED).scene
    goal.result()


def test_what_a_goal_names_is_known_to_the_next(fleet: Fleet) -> None:
    goal = fleet.plan('takeoff;goto(desk_5);land;', 'drone_2', objects=('desk_5',))
    assert goal.result()[0] == SUCCEEDED
    assert 'desk_5' in described(fleet, 'drone_2')
    assert fleet.plan('takeoff;goto(desk_5);land;', 'drone_2').result()[0] == SUCCEEDED


def test_detections_of_vision_msgs_are_heard(fleet: Fleet) -> None:
    from vision_msgs.msg import Detection3D, Detection3DArray, ObjectHypothesisWithPose

    message = Detection3DArray()
    message.header.frame_id = 'map'
    for label, x_m in (('chair', 4.0), ('table', 5.0)):
        item = Detection3D()
        for name, score in (('lamp', 0.1), (label, 0.9)):
            hypothesis = ObjectHypothesisWithPose()
            hypothesis.hypothesis.class_id, hypothesis.hypothesis.score = name, score
            hypothesis.pose.pose.position.x = x_m
            item.results.append(hypothesis)
        message.detections.append(item)
    # The second has a box with a place of its own.
    message.detections[1].bbox.center.position.x = 6.0
    known = tell_until(fleet, 'drone_2', 'detections_3d', message, lambda scene: 'table_1' in scene)
    assert (known['chair_1'].position.x, known['table_1'].position.x) == (4.0, 6.0)


def test_hostile_detections_are_refused_and_told_of(fleet: Fleet) -> None:
    before = set(described(fleet, 'drone_1'))
    message = Detections(labels=['cat;land', 'x' * 5000, 'owl'], scores=[0.9, 0.9, math.nan])
    message.positions = [Point(), Point(), Point()]
    assert fleet.planner is not None
    planner = fleet.planner
    tell_until(
        fleet, 'drone_1', 'detections', message, lambda _: 'refused: label' in planner.output
    )
    assert set(described(fleet, 'drone_1')) == before


def test_a_robot_that_there_is_not_is_told(fleet: Fleet) -> None:
    request = DescribeScene.Request(robot='nobody')
    answer = fleet.client.service(DescribeScene, fleet.name('describe_scene'), request)
    assert not answer.success
    assert "robot 'nobody': expected one of drone_1" in answer.message


def test_a_goal_without_a_robot_goes_to_whoever_knows_the_object_nearest(fleet: Fleet) -> None:
    for robot, x_m in (('drone_1', 9.0), ('drone_2', 2.0)):
        message = Detections(labels=['owl'], scores=[0.9], positions=[Point(x=x_m)])
        tell_until(fleet, robot, 'detections', message, lambda scene: 'owl_1' in scene)
    goal = fleet.plan('goto(owl_1);land;', '', skill_set='take_picture')
    assert goal.result()[0] == SUCCEEDED
    accepted = fleet.wait_event(goal, TaskEvent.ACCEPTED)
    assert accepted.robot == 'drone_2'
    assert accepted.why_robot.startswith('drone_2: expected utility')
    assert '2.0 m away; drone_1: expected utility' in accepted.why_robot
    assert any(feedback.why_robot == accepted.why_robot for feedback in goal.feedback)
    assert {feedback.robot for feedback in goal.feedback} == {'drone_2'}


def test_a_busy_robot_gives_a_task_to_another_where_any_will_do(fleet: Fleet) -> None:
    long = fleet.plan('delay(10000);' * 60, 'drone_1')
    fleet.wait_event(long, TaskEvent.SEGMENT_STARTED)
    goal = fleet.plan('scan;', 'drone_1', when_busy=PlanTask.Goal.BUSY_ANY)
    assert goal.result()[0] == SUCCEEDED
    assert fleet.wait_event(goal, TaskEvent.ACCEPTED).robot == 'drone_2'
    long.cancel()
    long.result()
