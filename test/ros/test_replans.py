"""Goals that are planned again where a skill failed, over ROS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from geometry_msgs.msg import Point
from rcl_interfaces.msg import ParameterType, ParameterValue
from support.ros.programs import wait_for
from support.ros.ros_client import ABORTED, CANCELED
from timely_llm_ros.action import PlanTask
from timely_llm_ros.msg import Detections, TaskEvent
from timely_llm_ros.srv import DescribeScene

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.ros.fleet import Fleet

pytestmark = pytest.mark.distro

GOAL = 'takeoff;goto(cat_1);land;'
TWICE = 2


@pytest.fixture(scope='module')
def fleet(start_fleet: Callable[..., Fleet]) -> Fleet:
    return start_fleet(
        planner={'replans': TWICE}, executor={'time_scale': 0.1, 'failure_probability': 1.0}
    )


def accepted(fleet: Fleet) -> list[TaskEvent]:
    return [event for event in fleet.events if event.event == TaskEvent.ACCEPTED]


def test_a_goal_is_planned_again_from_what_is_seen_then(fleet: Fleet) -> None:
    sender = fleet.client.node.create_publisher(Detections, fleet.name('drone_1/detections'), 1)
    seen = Detections(labels=['dog'], scores=[0.9], positions=[Point(x=1.0)])

    def known() -> bool:
        sender.publish(seen)
        request = DescribeScene.Request(robot='drone_1')
        scene = fleet.client.service(DescribeScene, fleet.name('describe_scene'), request).scene
        return [item.name for item in scene] == ['dog_1']

    wait_for(known, 'the dog')
    before = len(accepted(fleet))
    goal = fleet.plan(GOAL, objects=('cat_1',))
    status, result = goal.result()
    assert (status, result.error_code) == (ABORTED, PlanTask.Result.EXECUTION_FAILED)
    assert 'simulated failure' in result.error_msg
    assert (result.replans, result.segments) == (TWICE, 0)
    wait_for(lambda: len(accepted(fleet)) == before + 1 + TWICE, 'events of all plans')
    plans = accepted(fleet)[before:]
    assert {bytes(event.goal_id.uuid) for event in plans} == {bytes(goal.uuid.uuid)}
    assert len({bytes(event.plan_id.uuid) for event in plans}) == 1 + TWICE
    assert [item.name for item in plans[0].scene] == ['cat_1']
    assert {item.name for item in plans[-1].scene} == {'cat_1', 'dog_1'}
    fleet.client.node.destroy_publisher(sender)


def test_a_goal_is_cancelled_whichever_of_its_plans_it_is_at(fleet: Fleet) -> None:
    before = len(accepted(fleet))
    goal = fleet.plan('delay(9000);' * 3)
    wait_for(lambda: len(accepted(fleet)) >= before + 2, 'its second plan')
    goal.cancel()
    status, result = goal.result()
    assert (status, result.error_code) == (CANCELED, PlanTask.Result.CANCELED)
    assert result.replans in (1, TWICE)


def test_how_often_is_set_while_the_planner_serves(fleet: Fleet) -> None:
    value = ParameterValue(type=ParameterType.PARAMETER_INTEGER, integer_value=0)
    assert fleet.set_parameter('replans', value).successful
    status, result = fleet.plan(GOAL, objects=('cat_1',)).result()
    assert (status, result.replans) == (ABORTED, 0)
