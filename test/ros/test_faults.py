"""Processes that die, messages that lie: robots end in their safe action, goals with a reason."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from support.ros.programs import wait_for
from support.ros.ros_client import ABORTED, CANCELED, SUCCEEDED, Goal
from timely_llm_ros.action import ExecuteSegment, PlanTask
from timely_llm_ros.msg import RobotState, SceneObject, SkillSegment, TaskEvent
from unique_identifier_msgs.msg import UUID

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.ros.fleet import Fleet

Result = PlanTask.Result
Code = ExecuteSegment.Result
LONG = 'delay(10000);' * 6


@pytest.fixture(scope='module')
def fleet(start_fleet: Callable[..., Fleet]) -> Fleet:
    """Two robots in processes of their own; each test leaves both of them alive."""
    return start_fleet(
        robots={'drone_1': 'tello', 'drone_2': 'tello'},
        together=False,
        executor={'time_scale': 1.0},
    )


def begin(fleet: Fleet, robot: str = 'drone_1') -> Goal:
    """Return a goal of which the robot executes the first of six segments of ten seconds."""
    goal = fleet.plan(LONG, robot)
    wait_for(lambda: fleet.events_of(goal, TaskEvent.SEGMENT_STARTED), 'start')
    return goal


def revive(fleet: Fleet, index: int, robot: str) -> None:
    """Start an executor again, once the planner misses the last one, until the robot works."""
    fleet.executors[index].close()
    fleet.wait_lost(robot)
    fleet.executors[index] = fleet.start_executor([robot])
    wait_until_it_works(fleet, robot)


def wait_until_it_works(fleet: Fleet, robot: str = 'drone_1') -> None:
    """Send tasks until one is done; until then the robot may be missed, and nothing else."""

    def works() -> bool:
        status, result = fleet.plan('delay(100);', robot).result()
        assert status == SUCCEEDED or result.error_code == Result.ROBOT_UNAVAILABLE, result
        return bool(status == SUCCEEDED)

    wait_for(works, f'{robot} works')


@pytest.mark.parametrize('victim', ['worker', 'guard'])
def test_killed_executor(fleet: Fleet, victim: str) -> None:
    before = len(fleet.journal('drone_2'))
    goal, other = begin(fleet), begin(fleet, 'drone_2')
    executor = fleet.executors[0]
    worker = executor.children[0]
    os.kill(worker if victim == 'worker' else executor.pid, signal.SIGKILL)
    # The survivor makes the robot safe.
    fleet.wait_safe()
    assert (fleet.journal()[-1]['pid'] == worker) == (victim == 'guard')
    status, result = goal.result()
    assert status == ABORTED
    codes = {Result.ROBOT_UNAVAILABLE}
    if victim == 'guard':
        # The worker is alive to answer for its goals.
        codes.add(Result.EXECUTION_FAILED)
    assert result.error_code in codes, result.error_msg
    assert 'drone_1' in result.error_msg or victim == 'guard'
    # The other robot's plan goes on.
    assert other.answer is None
    assert 'safe' not in [line['event'] for line in fleet.journal('drone_2')[before:]]
    other.cancel()
    other.result()
    # Its executor is gone: tasks are refused until it is back.
    fleet.wait_lost('drone_1')
    status, result = fleet.plan('delay(100);').result()
    assert (status, result.error_code) == (ABORTED, Result.ROBOT_UNAVAILABLE)
    revive(fleet, 0, 'drone_1')


def test_hanging_executor(fleet: Fleet) -> None:
    goal = begin(fleet)
    worker = fleet.executors[0].children[0]
    os.kill(worker, signal.SIGSTOP)
    status, result = goal.result()
    assert (status, result.error_code) == (ABORTED, Result.ROBOT_UNAVAILABLE)
    # Its guard waits a while longer, then ends it and makes the robot safe.
    fleet.wait_safe()
    assert fleet.journal()[-1]['pid'] != worker
    assert fleet.executors[0].wait() != 0
    revive(fleet, 0, 'drone_1')


def test_segment_without_a_planner(start_fleet: Callable[..., Fleet]) -> None:
    fleet = start_fleet(start_planner=False, executor={'time_scale': 1.0})
    status, result = fleet.segment(text='delay(10000);').result()
    assert (status, result.error_code) == (ABORTED, Code.PLANNER_LOST)
    assert fleet.journal()[-1]['event'] == 'safe'


@pytest.mark.parametrize(('works', 'limit'), [(True, 'for 0.2 s'), (False, 'for 4.2 s')])
def test_worker_that_hangs(start_fleet: Callable[..., Fleet], works: bool, limit: str) -> None:
    fleet = start_fleet(
        start_planner=False,
        executor={'worker_timeout_s': 0.2, 'planner_timeout_s': 0.0, 'time_scale': 1.0},
    )
    executor = fleet.executors[0]
    if works:
        fleet.segment(text='delay(10000);')
        fleet.wait_started('delay(10000)')
    os.kill(executor.children[0], signal.SIGSTOP)
    assert executor.wait() != 0
    assert 'no sign of life from worker' in executor.output
    assert limit in executor.output
    assert fleet.journal()[-1]['event'] == 'safe'


def test_robot_left_moving_is_made_safe_before_it_is_ready(
    start_fleet: Callable[..., Fleet],
) -> None:
    fleet = start_fleet(start_planner=False, executor={'planner_timeout_s': 0.0, 'time_scale': 1.0})
    fleet.segment(text='delay(10000);')
    fleet.wait_started('delay(10000)')
    executor = fleet.executors[0]
    worker = executor.children[0]
    # Both at once: the worker must not notice that its guard is gone.
    os.kill(worker, signal.SIGSTOP)
    os.kill(executor.pid, signal.SIGKILL)
    os.kill(worker, signal.SIGKILL)
    executor.close()
    assert fleet.journal()[-1]['event'] == 'start'
    fleet.states['drone_1'].clear()
    fleet.executors[0] = fleet.start_executor(['drone_1'])
    wait_for(lambda: fleet.states['drone_1'], 'its state')
    assert fleet.journal()[-1]['event'] == 'safe'


def test_planner_that_was_stopped_blames_nobody(start_fleet: Callable[..., Fleet]) -> None:
    fleet = start_fleet(
        planner={'robot_timeout_s': 1.0}, executor={'planner_timeout_s': 0.35, 'time_scale': 1.0}
    )
    goal = begin(fleet)
    assert fleet.planner is not None
    os.kill(fleet.planner.pid, signal.SIGSTOP)
    fleet.wait_safe()
    # Longer than it would wait for a robot, and not as long as DDS waits for a program (20 s).
    states = len(fleet.states['drone_1'])
    wait_for(lambda: len(fleet.states['drone_1']) > states + 5, 'more states')
    os.kill(fleet.planner.pid, signal.SIGCONT)
    status, result = goal.result()
    assert (status, result.error_code) == (ABORTED, Result.EXECUTION_FAILED), result.error_msg
    assert 'no sign of life of the planner' in result.error_msg
    assert ': lost' not in fleet.planner.output


def test_executor_that_is_back_before_it_is_missed(start_fleet: Callable[..., Fleet]) -> None:
    # Long enough for an executor to start in, on a slow machine too.
    fleet = start_fleet(planner={'robot_timeout_s': 10.0}, executor={'time_scale': 1.0})
    goal = begin(fleet)
    os.kill(fleet.executors[0].children[0], signal.SIGKILL)
    fleet.wait_safe()
    fleet.executors.append(fleet.start_executor(['drone_1']))
    status, result = goal.result()
    assert (status, result.error_code) == (ABORTED, Result.ROBOT_UNAVAILABLE)
    wait_until_it_works(fleet)


def test_interrupted_executor(fleet: Fleet) -> None:
    goal = begin(fleet)
    fleet.executors[0].signal(signal.SIGINT)
    status, result = goal.result()
    assert status == ABORTED
    assert result.error_code in (Result.EXECUTION_FAILED, Result.ROBOT_UNAVAILABLE)
    assert fleet.executors[0].wait() == 0
    assert fleet.journal()[-1]['event'] == 'safe'
    assert 'Traceback' not in fleet.executors[0].output
    revive(fleet, 0, 'drone_1')


def test_killed_planner(fleet: Fleet) -> None:
    goal = begin(fleet)
    assert fleet.planner is not None
    fleet.planner.signal(signal.SIGKILL)
    fleet.wait_safe()
    # Nothing of the plan starts after that, though segments were queued.
    wait_for(lambda: fleet.states['drone_1'][-1].phase == RobotState.SAFE, 'safe')
    assert fleet.states['drone_1'][-1].queued_segments == 0
    wait_for(lambda: 'no sign of life of the planner' in fleet.executors[0].output, 'its log')
    assert goal.answer is None
    fleet.restart_planner()
    wait_until_it_works(fleet)


def test_interrupted_planner(fleet: Fleet) -> None:
    goal = begin(fleet)
    assert fleet.planner is not None
    fleet.planner.signal(signal.SIGTERM)
    status, result = goal.result()
    assert (status, result.error_code) == (ABORTED, Result.SHUTDOWN)
    assert fleet.planner.wait() == 0
    assert fleet.journal()[-1]['event'] == 'safe'
    assert 'Traceback' not in fleet.planner.output
    fleet.restart_planner()
    wait_until_it_works(fleet)


HOSTILE = [
    'explode;',
    'takeoff',
    '',
    ';',
    '__import__("os").system("true");',
    'move_forward(501);',
    'move_forward(-20);',
    'goto(cat_9);',
    'goto(__class__);',
    'execute;',
    'safe;',
    'repeat(1000000){scan;};',
    'repeat(2){' * 50 + 'scan;' + '};' * 50,
    'takeoff;' * 20_000,
    'takeoff;\x01',
    'log("\'; drop table robots");',
    'täkeoff;',
]


@pytest.mark.parametrize('text', HOSTILE, ids=[repr(text[:24]) for text in HOSTILE])
def test_hostile_segment_reaches_no_robot(fleet: Fleet, text: str) -> None:
    before = fleet.journal()
    status, result = fleet.segment(text=text, index=0).result()
    assert (status, result.error_code) == (ABORTED, Code.INVALID_SEGMENT)
    assert result.error_msg
    assert fleet.journal() == before


@pytest.mark.parametrize(
    ('fields', 'offending'),
    [
        ({'robot': 'drone_2'}, 'drone_2'),
        ({'skill_set': 'arm'}, 'arm'),
        ({'objects': [SceneObject(name='cat_9; rm', kind='cat')]}, 'rm'),
        ({'objects': [SceneObject(name='cat_9', kind='cat')] * 2}, 'cat_9'),
    ],
)
def test_segment_for_another_robot_is_refused(
    fleet: Fleet, fields: dict[str, object], offending: str
) -> None:
    before = fleet.journal()
    segment = SkillSegment(
        **{'robot': 'drone_1', 'skill_set': 'tello', 'text': 'takeoff;', **fields}
    )
    goal = Goal(
        fleet.client, fleet.execute_segment['drone_1'], ExecuteSegment.Goal(segment=segment)
    )
    status, result = goal.result()
    assert (status, result.error_code) == (ABORTED, Code.INVALID_SEGMENT)
    assert offending in result.error_msg
    assert fleet.journal() == before


def test_a_stop_that_comes_as_a_goal_stops_that_robot_alone(
    start_fleet: Callable[..., Fleet],
) -> None:
    fleet = start_fleet(
        robots={'drone_1': 'tello', 'drone_2': 'tello'}, executor={'time_scale': 1.0}
    )
    stopped = fleet.segment('drone_1', text='delay(10000);').wait_accepted()
    other = fleet.segment('drone_2', text='delay(10000);').wait_accepted()
    for robot in fleet.robots:
        fleet.wait_started('delay(10000)', robot)
    assert {state[-1].action for state in fleet.states.values()} == {
        f'/{fleet.name("drone_1/execute_segment").lstrip("/")}'
    }
    segment = SkillSegment(robot='drone_1')
    action = fleet.execute_segment['drone_1']
    status, result = Goal(
        fleet.client, action, ExecuteSegment.Goal(segment=segment, stop=True)
    ).result()
    assert (status, result.error_code, result.error_msg) == (SUCCEEDED, Code.NONE, '')
    assert stopped.result()[1].error_code == Code.CANCELED
    assert other.answer is None
    other.cancel()
    assert other.result()[1].error_code == Code.CANCELED


def test_segment_sent_by_hand(fleet: Fleet) -> None:
    goal = fleet.segment(text='delay(100);take_picture;')
    status, result = goal.result()
    assert (status, result.error_code) == (SUCCEEDED, Code.NONE)
    assert result.calls == ['delay(100)', 'take_picture']
    assert len(result.call_durations) == 2
    # Feedback is a topic and the result is not: either may be here first.
    assert wait_for(lambda: goal.feedback, 'feedback')[0].call == 'delay(100)'


def test_segments_run_in_the_order_of_their_index(fleet: Fleet) -> None:
    plan_id = UUID(uuid=[7] * 16)
    before = len(fleet.started())
    second = fleet.segment(text='take_picture;', index=1, plan_id=plan_id).wait_accepted()
    first = fleet.segment(text='delay(100);', index=0, plan_id=plan_id)
    assert first.result()[0] == second.result()[0] == SUCCEEDED
    assert fleet.started()[before:] == ['delay(100)', 'take_picture']
    again = fleet.segment(text='delay(100);', index=0, plan_id=plan_id)
    assert again.result()[1].error_code == Code.INVALID_SEGMENT


def test_queued_segment_is_cancelled_at_once(fleet: Fleet) -> None:
    plan_id = UUID(uuid=[8] * 16)
    before = fleet.started().count('delay(10000)')
    first = fleet.segment(text='delay(10000);', index=0, plan_id=plan_id)
    second = fleet.segment(text='take_picture;', index=1, plan_id=plan_id)
    fleet.wait_started('delay(10000)', times=before + 1)
    second.cancel()
    assert second.result()[0] == CANCELED
    assert first.answer is None
    newer = fleet.segment(text='take_picture;')
    status, result = first.result()
    assert (status, result.error_code) == (ABORTED, Code.SUPERSEDED)
    assert newer.result()[0] == SUCCEEDED
