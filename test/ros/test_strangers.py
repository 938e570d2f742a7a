"""Others on the domain who lie, and programs that are started twice."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING, Any

import pytest
from std_msgs.msg import Header
from support.ros.programs import wait_for
from support.ros.ros_client import ABORTED, SUCCEEDED, Goal
from timely_llm_ros.action import ExecuteSegment, PlanTask
from timely_llm_ros.msg import RobotState, TaskEvent

from timely_llm_ros.ros import EVENTS_QOS, HEARTBEAT_QOS, HEARTBEAT_TOPIC, STATE_QOS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.ros.fleet import Fleet
    from support.ros.programs import Program
    from support.ros.ros_client import Client

pytestmark = pytest.mark.distro

PERIOD_S = 0.01
LONG = 'delay(10000);' * 6
SOME = 'delay(700);' * 6


@pytest.fixture(scope='module')
def fleet(start_fleet: Callable[..., Fleet]) -> Fleet:
    return start_fleet(executor={'time_scale': 1.0, 'planner_timeout_s': 1.0})


@contextlib.contextmanager
def lying(client: Client, kind: Any, topic: str, qos: Any, message: Any) -> Iterator[None]:
    """Publish a message again and again, each time as if it were new."""
    node = client.node
    publisher = client.do(node.create_publisher, kind, topic, qos)

    def publish() -> None:
        getattr(message, 'header', message).stamp = node.get_clock().now().to_msg()
        publisher.publish(message)

    timer = client.do(node.create_timer, PERIOD_S, publish)
    try:
        yield
    finally:
        client.do(node.destroy_timer, timer)
        client.do(node.destroy_publisher, publisher)


def begin(fleet: Fleet, instruction: str) -> Goal:
    goal = fleet.plan(instruction)
    wait_for(lambda: fleet.events_of(goal, TaskEvent.SEGMENT_STARTED), 'start')
    return goal


def test_forged_loss_of_a_robot_is_dropped_and_reported(fleet: Fleet, client: Client) -> None:
    goal = begin(fleet, SOME)
    lost = RobotState(robot='drone_1', skill_set='tello', phase=RobotState.LOST)
    with lying(client, RobotState, fleet.name('drone_1/robot_state'), STATE_QOS, lost):
        status, result = goal.result()
        assert status == SUCCEEDED, result.error_msg
        assert fleet.plan('delay(100);').result()[0] == SUCCEEDED
    assert fleet.planner is not None
    for program in (fleet.planner, fleet.executors[0]):
        assert 'robot_state: dropped what publisher' in program.output


def test_segments_of_another_planner_are_fenced(fleet: Fleet) -> None:
    goal = begin(fleet, SOME)
    status, result = fleet.segment(text='land;', planner=b'x' * 16).result()
    assert (status, result.error_code) == (ABORTED, ExecuteSegment.Result.FENCED)
    assert 'drone_1' in result.error_msg
    status, result = goal.result()
    assert status == SUCCEEDED, result.error_msg
    assert 'land' not in fleet.started()


def test_segments_of_a_planner_that_is_not_heard_are_fenced(fleet: Fleet) -> None:
    # Nothing is in hand that would fence them off.
    fleet.plan('delay(100);').result()
    status, result = fleet.segment(text='land;', planner=b'x' * 16).result()
    assert (status, result.error_code) == (ABORTED, ExecuteSegment.Result.FENCED)
    assert 'land' not in fleet.started()


def test_forged_end_of_a_plan_is_dropped_and_reported(fleet: Fleet, client: Client) -> None:
    goal = begin(fleet, SOME)
    plan_id = fleet.events_of(goal, TaskEvent.SEGMENT_STARTED)[0].plan_id
    end = TaskEvent(event=TaskEvent.ENDED, plan_id=plan_id, robot='drone_1')
    with lying(client, TaskEvent, fleet.name('task_events'), EVENTS_QOS, end):
        status, result = goal.result()
    assert status == SUCCEEDED, result.error_msg
    assert 'task_events: dropped what publisher' in fleet.executors[0].output


def test_segment_for_another_executor_gets_no_answer(fleet: Fleet) -> None:
    other = fleet.segment(text='land;', executor=b'y' * 16)
    # Served in the order in which they come.
    assert fleet.segment(text='delay(100);').result()[0] == SUCCEEDED
    assert other.accepted is None
    assert 'land' not in fleet.started()


def test_goal_for_another_planner_gets_no_answer(fleet: Fleet) -> None:
    other = fleet.plan('land;', planner=b'y' * 16)
    # Served in the order in which they come.
    assert fleet.plan('delay(100);').result()[0] == SUCCEEDED
    assert other.accepted is None
    assert 'land' not in fleet.started()


def test_second_executor_refuses_to_start(fleet: Fleet) -> None:
    before = len(fleet.journal())
    goal = begin(fleet, SOME)
    second = fleet.start_executor(['drone_1'])
    fleet.executors.append(second)
    assert second.wait() == 1
    assert 'drone_1/stop' in second.output
    assert 'another program has it, expected none' in second.output
    assert 'Traceback' not in second.output
    status, result = goal.result()
    assert status == SUCCEEDED, result.error_msg
    assert [line['event'] for line in fleet.journal()[before:]].count('start') == 6


def test_second_planner_refuses_to_start(fleet: Fleet) -> None:
    goal = begin(fleet, SOME)
    second = fleet.start_planner()
    try:
        assert second.wait() == 1
        assert 'another program has it, expected none' in second.output
    finally:
        second.close()
    status, result = goal.result()
    assert status == SUCCEEDED, result.error_msg


def only_one_stays(programs: list[Program]) -> tuple[Program, Program]:
    """Return who stayed and who left."""
    wait_for(lambda: any(program.process.poll() is not None for program in programs), 'an end')
    gone = [program for program in programs if program.process.poll() is not None]
    assert len(gone) == 1
    assert gone[0].process.poll() == 1
    assert 'another program has it' in gone[0].output
    return next(program for program in programs if program is not gone[0]), gone[0]


def test_of_programs_that_start_together_one_stays(start_fleet: Callable[..., Fleet]) -> None:
    fleet = start_fleet(executor={'time_scale': 0.1})
    assert fleet.planner is not None
    for program in (fleet.planner, fleet.executors[0]):
        program.signal(signal.SIGINT)
        assert program.wait() == 0
    fleet.forget_planner()
    fleet.executors = [fleet.start_executor(['drone_1']) for _ in range(2)]
    planners = [fleet.start_planner() for _ in range(2)]
    only_one_stays(fleet.executors)
    fleet.planner, gone = only_one_stays(planners)
    gone.close()
    fleet.wait_planning()
    fleet.wait_answering()
    before = len(fleet.started())

    def works() -> bool:
        goal = fleet.plan('delay(100);take_picture;')
        status, result = goal.result()
        assert status == SUCCEEDED or result.error_code == PlanTask.Result.ROBOT_UNAVAILABLE
        return bool(status == SUCCEEDED)

    wait_for(works, 'a task is done')
    assert fleet.started()[before:] == ['delay(100)', 'take_picture']


def test_planner_that_hears_a_liar_first_works(
    start_fleet: Callable[..., Fleet], client: Client
) -> None:
    fleet = start_fleet(executor={'time_scale': 0.1})
    assert fleet.planner is not None
    for program in (fleet.planner, fleet.executors[0]):
        program.signal(signal.SIGINT)
        assert program.wait() == 0
    liar = RobotState(robot='drone_1', skill_set='tello', phase=RobotState.IDLE)
    with lying(client, RobotState, fleet.name('drone_1/robot_state'), STATE_QOS, liar):
        fleet.forget_planner()
        planner = fleet.planner = fleet.start_planner()
        wait_for(lambda: 'expected an action by its full name' in planner.output, 'a report')
        fleet.executors[0] = fleet.start_executor(['drone_1'])
        fleet.wait_planning()
        fleet.wait_answering()
        status, result = fleet.plan('delay(100);').result()
    assert status == SUCCEEDED, result.error_msg


def test_forged_heartbeat_keeps_no_robot_moving(fleet: Fleet, client: Client) -> None:
    begin(fleet, LONG)
    assert fleet.planner is not None
    with lying(client, Header, fleet.name(HEARTBEAT_TOPIC), HEARTBEAT_QOS, Header()):
        fleet.planner.signal(signal.SIGKILL)
        fleet.wait_safe()
    assert 'no sign of life of the planner' in fleet.executors[0].output
    assert 'planner_heartbeat: dropped what publisher' in fleet.executors[0].output
