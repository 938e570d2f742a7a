"""A task's life over ROS, with the simulated engine: the instruction is the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from builtin_interfaces.msg import Duration
from fleet import ABORTED, CANCELED, SUCCEEDED, wait_for
from timely_llm_ros.action import PlanTask
from timely_llm_ros.msg import GenerationState, RobotState, TaskEvent, TimeUtility

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet import Fleet

Result = PlanTask.Result
PLAN = 'takeoff;goto(cat_3);take_picture;land;'
LONG = 'delay(10000);' * 10
"""A plan of 10 s at the simulated driver's scale, and of several seconds of generation."""


@pytest.fixture(scope='module')
def fleet(start_fleet: Callable[..., Fleet]) -> Fleet:
    return start_fleet(
        robots={'drone_1': 'tello', 'arm_1': 'arm'},
        planner={'max_queue_per_robot': 1},
        executor={'time_scale': 0.1},
    )


def seconds(duration: Duration) -> float:
    return duration.sec + duration.nanosec / 1e9


def test_plan_is_executed_segment_by_segment(fleet: Fleet) -> None:
    before = len(fleet.journal())
    goal = fleet.plan(PLAN, objects=('cat_3', 'dog_1'), task_kind='photo')
    status, result = goal.result()
    assert (status, result.error_code, result.error_msg) == (SUCCEEDED, Result.NONE, '')
    assert result.segments == 4
    assert result.tokens > 8
    assert [line['call'] for line in fleet.journal()[before:] if line['event'] == 'start'] == [
        'takeoff',
        'goto(cat_3)',
        'take_picture',
        'land',
    ]
    completion_s = seconds(result.waiting_time) + seconds(result.execution_time)
    assert seconds(result.completion_time) == pytest.approx(completion_s, abs=1e-6)
    assert 0 < seconds(result.response_time) <= seconds(result.waiting_time)


def test_events_mirror_the_goal(fleet: Fleet) -> None:
    utility = TimeUtility(expected_response=Duration(sec=100), slope_per_s=-0.5, peak=3.0)
    goal = fleet.plan(PLAN, objects=('cat_3',), task_kind='photo', utility=utility)
    status, result = goal.result()
    ended = fleet.wait_event(goal, TaskEvent.ENDED)
    events = fleet.events_of(goal)
    assert [event.event for event in events[:1]] == [TaskEvent.ACCEPTED]
    assert [item.name for item in events[0].scene] == ['cat_3']
    assert (events[0].instruction, events[0].task_kind) == (PLAN, 'photo')
    assert events[0].utility == utility
    started = [event for event in events if event.event == TaskEvent.SEGMENT_STARTED]
    assert [event.segment for event in started] == [0, 1, 2, 3]
    assert ''.join(event.text for event in started) == PLAN
    assert ended.status == status == SUCCEEDED
    assert ended.achieved_utility == result.utility == 3.0
    assert ended.response_time == result.response_time


def test_segments_are_published(fleet: Fleet) -> None:
    goal = fleet.plan(PLAN, objects=('cat_3', 'dog_1'))
    goal.result()
    own = [
        segment
        for segment in fleet.segments
        if bytes(segment.plan_id.uuid) == bytes(goal.uuid.uuid)
    ]
    assert [segment.index for segment in own] == [0, 1, 2, 3]
    assert ''.join(segment.text for segment in own) == PLAN
    goto = own[1]
    assert goto.calls[0].skill == 'goto'
    assert goto.calls[0].argument_texts == ['cat_3']
    assert [item.name for item in goto.objects] == ['cat_3']
    assert seconds(goto.expected_execution) > 0
    assert seconds(goto.generation_time) > 0


def test_feedback_is_slow_and_ends_with_the_plan(fleet: Fleet) -> None:
    goal = fleet.plan('takeoff;' + 'delay(100);' * 20 + 'land;')
    goal.result()
    times = [at_s for at_s, _ in goal.feedback]
    assert len(times) >= 2
    # 10 Hz at most; the first two may meet on the way here.
    assert len(times) <= 10 * (times[-1] - times[0]) + 2
    assert goal.feedback[0][1].phase in (PlanTask.Feedback.GENERATING, PlanTask.Feedback.EXECUTING)
    wait_for(lambda: goal.feedback[-1][1].segments == 22, 'last feedback')


def test_value_of_a_blocking_call_goes_back(fleet: Fleet) -> None:
    goal = fleet.plan('is_visible(cat_3);take_picture;', objects=('cat_3',))
    status, result = goal.result()
    assert status == SUCCEEDED, result.error_msg
    assert result.segments == 2


def test_robots_work_at_the_same_time(fleet: Fleet) -> None:
    drone = fleet.plan(PLAN, objects=('cat_3',))
    arm = fleet.plan('pick(cup_1);home;', 'arm_1', objects=('cup_1',))
    assert drone.result()[0] == arm.result()[0] == SUCCEEDED
    assert fleet.started('arm_1')[-2:] == ['pick(cup_1)', 'home']


def test_cancel_while_executing(fleet: Fleet) -> None:
    before = fleet.started().count('delay(10000)')
    goal = fleet.plan(LONG)
    fleet.wait_started('delay(10000)', times=before + 1)
    assert len(goal.cancel().goals_canceling) == 1
    status, result = goal.result()
    assert (status, result.error_code) == (CANCELED, Result.CANCELED)
    # The robot was made safe before the result came.
    assert fleet.journal()[-1]['event'] == 'safe'
    assert fleet.wait_event(goal, TaskEvent.ENDED).status == CANCELED


def test_cancel_while_generating(fleet: Fleet) -> None:
    before = len(fleet.started())
    goal = fleet.plan('repeat(2){' + 'delay(100);' * 30 + '};').wait_accepted()
    wait_for(lambda: goal.feedback, 'feedback')
    goal.cancel()
    status, result = goal.result()
    assert (status, result.error_code) == (CANCELED, Result.CANCELED)
    assert len(fleet.started()) == before
    assert not fleet.events_of(goal, TaskEvent.SEGMENT_STARTED)


def test_cancel_while_queued(fleet: Fleet) -> None:
    first = fleet.plan(LONG).wait_accepted()
    second = fleet.plan('scan;', when_busy=PlanTask.Goal.BUSY_QUEUE)
    second.cancel()
    status, result = second.result()
    assert (status, result.error_code) == (CANCELED, Result.CANCELED)
    assert first.answer is None
    first.cancel()
    assert first.result()[0] == CANCELED
    assert 'scan' not in fleet.started()


def test_newer_task_supersedes(fleet: Fleet) -> None:
    old = fleet.plan(LONG)
    wait_for(lambda: fleet.events_of(old, TaskEvent.SEGMENT_STARTED), 'start of the old task')
    new = fleet.plan('take_picture;')
    status, result = old.result()
    assert (status, result.error_code) == (ABORTED, Result.SUPERSEDED)
    assert new.result()[0] == SUCCEEDED
    assert fleet.started()[-1] == 'take_picture'


def test_task_queues_behind(fleet: Fleet) -> None:
    first = fleet.plan('delay(5000);')
    first.wait_accepted()
    second = fleet.plan('take_picture;', when_busy=PlanTask.Goal.BUSY_QUEUE)
    assert first.result()[0] == second.result()[0] == SUCCEEDED
    assert fleet.started()[-2:] == ['delay(5000)', 'take_picture']


def test_full_queue_refuses_with_a_reason(fleet: Fleet) -> None:
    first = fleet.plan(LONG).wait_accepted()
    second = fleet.plan('scan;', when_busy=PlanTask.Goal.BUSY_QUEUE).wait_accepted()
    third = fleet.plan('scan;', when_busy=PlanTask.Goal.BUSY_QUEUE)
    status, result = third.result()
    assert (status, result.error_code) == (ABORTED, Result.REFUSED)
    assert 'drone_1' in result.error_msg
    assert fleet.wait_event(third, TaskEvent.REFUSED).error_code == Result.REFUSED
    second.cancel()
    first.cancel()
    first.result()


@pytest.mark.parametrize(
    ('fields', 'offending'),
    [
        ({'robot': 'drone_9'}, 'drone_9'),
        ({'skill_set': 'arm'}, "'arm'"),
        ({'instruction': ''}, "''"),
        ({'instruction': 'x' * 401}, 'xxx'),
        ({'instruction': 'land;\x07'}, r'\x07'),
        ({'objects': ('Cat 3',)}, 'Cat 3'),
        ({'objects': ('cat_3', 'cat_3')}, 'cat_3'),
        ({'overrun': 7}, '7'),
        ({'when_busy': 9}, '9'),
        ({'time_budget': Duration(sec=-1)}, '-1'),
        ({'utility': TimeUtility(slope_per_s=1.0, peak=1.0)}, '1.0'),
        ({'utility': TimeUtility(peak=float('nan'))}, 'nan'),
    ],
)
def test_invalid_goal_is_rejected_and_the_reason_published(
    fleet: Fleet, fields: dict[str, object], offending: str
) -> None:
    before = len(fleet.events)
    fleet.plan(**{'instruction': 'land;', **fields}).wait_rejected()  # type: ignore[arg-type]
    event = wait_for(lambda: fleet.events[before:], 'refusal')[0]
    assert (event.event, event.error_code) == (TaskEvent.REFUSED, Result.INVALID_TASK)
    assert offending in event.error_msg


@pytest.mark.parametrize('plan', ['explode;', 'goto(cat_4);', 'move_forward(9999);', 'takeoff'])
def test_bad_plan_aborts(fleet: Fleet, plan: str) -> None:
    before = len(fleet.started())
    status, result = fleet.plan(plan, objects=('cat_3',)).result()
    assert (status, result.error_code) == (ABORTED, Result.BAD_PLAN)
    assert result.error_msg
    assert len(fleet.started()) == before


def test_budget_overrun_aborts(fleet: Fleet) -> None:
    status, result = fleet.plan(LONG, time_budget=Duration(nanosec=300_000_000)).result()
    assert (status, result.error_code) == (ABORTED, Result.BUDGET_OVERRUN)


def test_no_goal_of_a_burst_is_lost(fleet: Fleet) -> None:
    goals = [fleet.plan('take_picture;') for _ in range(60)]
    answers = [goal.result() for goal in goals]
    assert answers[-1][0] == SUCCEEDED
    assert {status for status, _ in answers} <= {SUCCEEDED, ABORTED}
    assert {result.error_code for _, result in answers} <= {Result.NONE, Result.SUPERSEDED}


def test_budget_that_cannot_be_met_is_refused_at_once(fleet: Fleet) -> None:
    assert fleet.plan('take_picture;').result()[0] == SUCCEEDED
    goal = fleet.plan(LONG, time_budget=Duration(nanosec=1_000_000))
    status, result = goal.result()
    assert (status, result.error_code) == (ABORTED, Result.REFUSED)
    assert '0.001 s' in result.error_msg
    assert fleet.wait_event(goal, TaskEvent.REFUSED).error_msg == result.error_msg
    assert not fleet.events_of(goal, TaskEvent.ACCEPTED)


def test_suspended_generations_show_in_the_scheduler_state(fleet: Fleet) -> None:
    before = len(fleet.scheduler)
    goal = fleet.plan('delay(2000);' * 5)
    goal.result()
    own = [
        generation
        for state in fleet.scheduler[before:]
        for generation in state.generations
        if bytes(generation.plan_id.uuid) == bytes(goal.uuid.uuid)
    ]
    assert own
    assert {generation.robot for generation in own} == {'drone_1'}
    assert GenerationState.RUNNING in {generation.phase for generation in own}
    last = wait_for(lambda: fleet.scheduler[-1], 'state')
    assert (last.engine, last.mode, last.policy) == ('simulated', 'segmented', 'utility')
    assert last.kv_capacity_tokens > 0


def test_robot_state_follows_the_plan(fleet: Fleet) -> None:
    goal = fleet.plan('delay(5000);')
    state = wait_for(
        lambda: next(
            (
                state
                for state in reversed(fleet.states['drone_1'])
                if state.phase == RobotState.EXECUTING
                and bytes(state.plan_id.uuid) == bytes(goal.uuid.uuid)
            ),
            None,
        ),
        'executing',
    )
    assert (state.robot, state.skill_set) == ('drone_1', 'tello')
    assert state.call == 'delay(5000)'
    assert seconds(state.expected_remaining) > 0
    goal.result()
    wait_for(lambda: fleet.states['drone_1'][-1].phase == RobotState.IDLE, 'idle after the plan')


def test_stop_service_makes_the_robot_safe(fleet: Fleet) -> None:
    before = fleet.started().count('delay(10000)')
    goal = fleet.plan(LONG)
    fleet.wait_started('delay(10000)', times=before + 1)
    assert fleet.stop_robot().success
    assert fleet.journal()[-1]['event'] == 'safe'
    status, result = goal.result()
    assert (status, result.error_code) == (ABORTED, Result.EXECUTION_FAILED)


def test_skills_are_described(fleet: Fleet) -> None:
    one = fleet.describe('arm_1')
    assert one.success
    assert one.skill_sets == ['arm']
    assert 'pick' in yaml.safe_load(one.yaml[0])['skills']
    both = fleet.describe('')
    assert sorted(both.skill_sets) == ['arm', 'tello']
    assert len(set(both.fingerprints)) == 2
    unknown = fleet.describe('arm_9')
    assert not unknown.success
    assert 'arm_9' in unknown.message


def test_catalogue_waits_for_late_subscribers(fleet: Fleet) -> None:
    text = wait_for(lambda: fleet.catalogue, 'catalogue')[-1]
    catalogue = yaml.safe_load(text)
    assert catalogue['robots'] == {'drone_1': 'tello', 'arm_1': 'arm'}
    assert 'takeoff' in yaml.safe_load(catalogue['skill_sets']['tello'])['skills']


def test_diagnostics_are_good_while_generations_are_suspended(fleet: Fleet) -> None:
    goal = fleet.plan('delay(10000);' * 3)
    goal.wait_accepted()
    before = len(fleet.diagnostics)
    wait_for(lambda: len(fleet.diagnostics) > before + 1, 'diagnostics')
    statuses = {status.name.split(': ')[1]: status for status in fleet.diagnostics[-1].status}
    assert set(statuses) == {
        'queue',
        'engine',
        'KV cache',
        'deadlines',
        'robot drone_1',
        'robot arm_1',
    }
    assert all(statuses[item].level == b'\x00' for item in ('queue', 'engine', 'KV cache')), (
        statuses
    )
    goal.cancel()
    goal.result()
