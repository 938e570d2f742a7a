"""A task's life over ROS, with the simulated engine: the instruction is the plan."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from builtin_interfaces.msg import Duration
from support.ros.programs import wait_for
from support.ros.ros_client import ABORTED, CANCELED, SUCCEEDED
from timely_llm_ros.action import PlanTask
from timely_llm_ros.msg import (
    GenerationState,
    RobotState,
    SkillSegment,
    TaskEvent,
    TimeUtility,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.ros.fleet import Fleet

pytestmark = pytest.mark.distro

Result = PlanTask.Result
PLAN = 'takeoff;goto(cat_3);take_picture;land;'
LONG = 'delay(10000);' * 30
"""30 s at the simulated driver's scale: it does not end by itself before it is cancelled."""


@pytest.fixture(scope='module')
def fleet(start_fleet: Callable[..., Fleet]) -> Fleet:
    return start_fleet(
        robots={'drone_1': 'tello', 'arm_1': 'arm'},
        planner={'max_queue_per_robot': 1, 'min_step_s': 0.05},
        executor={'time_scale': 0.1},
    )


def seconds(duration: Duration) -> float:
    return float(duration.sec + duration.nanosec / 1e9)


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
    over = [event for event in events if event.event == TaskEvent.SEGMENT_ENDED]
    assert [f'{call};' for event in over for call in event.calls] == [e.text for e in over]
    for event in over:
        (call_s,) = map(seconds, event.call_durations)
        assert 0 < call_s <= seconds(event.execution_time)
    assert ended.status == status == SUCCEEDED
    assert ended.achieved_utility == result.utility == 3.0
    assert ended.response_time == result.response_time


def test_segments_are_published(fleet: Fleet) -> None:
    goal = fleet.plan(PLAN, objects=('cat_3', 'dog_1'))
    goal.result()

    def own_segments() -> list[SkillSegment]:
        return [
            segment
            for segment in tuple(fleet.segments)
            if bytes(segment.plan_id.uuid) == bytes(goal.uuid.uuid)
        ]

    wait_for(lambda: len(own_segments()) >= 4, 'segments')
    own = own_segments()
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
    _, result = goal.result()
    wait_for(lambda: goal.feedback and goal.feedback[-1].segments == 22, 'last feedback')
    # 10 Hz at most, by the planner's clock: on the way here they may catch up with each other.
    assert 2 <= len(goal.feedback) <= 10 * seconds(result.completion_time) + 2
    assert goal.feedback[0].phase in (PlanTask.Feedback.GENERATING, PlanTask.Feedback.EXECUTING)


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
    # One segment, of which the generation takes ten seconds.
    goal = fleet.plan('repeat(2){' + 'delay(1);' * 42 + '};').wait_accepted()
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
        ({'instruction': 'x' * 65_537}, 'xxx'),
        ({'instruction': 'land;\x07'}, r'\x07'),
        ({'objects': ('Cat 3',)}, 'Cat 3'),
        ({'objects': ('cat_3', 'cat_3')}, 'cat_3'),
        ({'objects': ('repeat',)}, "'repeat' is a word of the plan language"),
        ({'overrun': 7}, '7'),
        ({'when_busy': 9}, '9'),
        ({'time_budget': Duration(sec=-1)}, '-1'),
        ({'utility': TimeUtility(slope_per_s=1.0, peak=1.0)}, '1.0'),
        ({'utility': TimeUtility(peak=float('nan'))}, 'nan'),
    ],
)
def test_invalid_goal_is_rejected_and_the_reason_published(
    fleet: Fleet, fields: dict[str, Any], offending: str
) -> None:
    before = len(fleet.events)
    fleet.plan(**{'instruction': 'land;', **fields}).wait_rejected()

    def refusals() -> list[TaskEvent]:
        # What else comes is of the tests before.
        return [event for event in fleet.events[before:] if event.event == TaskEvent.REFUSED]

    (event,) = wait_for(refusals, 'refusal')
    assert event.error_code == Result.INVALID_TASK
    assert offending in event.error_msg


def test_object_with_the_name_of_a_skill_is_an_invalid_task(fleet: Fleet) -> None:
    before = len(fleet.started())
    status, result = fleet.plan('land;', objects=('land',)).result()
    assert (status, result.error_code) == (ABORTED, Result.INVALID_TASK)
    assert result.error_msg == "object name 'land' is a skill of 'tello': expected another name"
    assert len(fleet.started()) == before


@pytest.mark.parametrize('plan', ['explode;', 'goto(cat_4);', 'move_forward(9999);', 'takeoff'])
def test_bad_plan_aborts(fleet: Fleet, plan: str) -> None:
    before = len(fleet.started())
    status, result = fleet.plan(plan, objects=('cat_3',)).result()
    assert (status, result.error_code) == (ABORTED, Result.BAD_PLAN)
    assert result.error_msg
    assert len(fleet.started()) == before


def test_budget_overrun_aborts(fleet: Fleet) -> None:
    # Longer than plans are: some 180 tokens, 3.9 s.
    goal = fleet.plan('delay(100);' * 36, time_budget=Duration(sec=2, nanosec=500_000_000))
    status, result = goal.result()
    assert (status, result.error_code) == (ABORTED, Result.BUDGET_OVERRUN)
    accepted = fleet.wait_event(goal, TaskEvent.ACCEPTED)
    assert result.predicted_tokens == accepted.predicted_tokens > 0
    assert 0 < seconds(accepted.worst_generation_time) <= 2.5
    assert seconds(result.generation_time) >= 2.5


def test_no_goal_of_a_burst_is_lost(fleet: Fleet) -> None:
    goals = [fleet.plan('take_picture;') for _ in range(60)]
    answers = [goal.result() for goal in goals]
    assert answers[-1][0] == SUCCEEDED
    assert {status for status, _ in answers} <= {SUCCEEDED, ABORTED}
    assert {result.error_code for _, result in answers} <= {Result.NONE, Result.SUPERSEDED}


def test_a_goal_that_comes_to_nothing_in_its_robots_queue_is_ended_as_such(fleet: Fleet) -> None:
    first = fleet.plan(LONG)
    first.wait_accepted()
    # Worth nothing after 0.2 s; the floor is 0 where a goal with a utility says nothing of it.
    utility = TimeUtility(
        expected_response=Duration(nanosec=100_000_000), slope_per_s=-10.0, peak=1.0
    )
    second = fleet.plan(
        PLAN, objects=('cat_3',), utility=utility, when_busy=PlanTask.Goal.BUSY_QUEUE
    )
    status, result = second.result()
    assert status == ABORTED
    # Refused where the planner knows already how long plans take.
    assert result.error_code in (Result.REFUSED, Result.WORTHLESS)
    assert ' s' in result.error_msg
    assert 'expected' in result.error_msg
    first.cancel()
    first.result()


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
    goal = fleet.plan(LONG)

    def own(phase: int) -> list[GenerationState]:
        return [
            generation
            for state in fleet.scheduler[before:]
            for generation in state.generations
            if bytes(generation.plan_id.uuid) == bytes(goal.uuid.uuid) and generation.phase == phase
        ]

    # Only the latest state is kept on its way here, so each phase is waited for while it lasts.
    for phase in (GenerationState.RUNNING, GenerationState.SUSPENDED):
        found = wait_for(partial(own, phase), f'phase {phase}')
        assert {generation.robot for generation in found} == {'drone_1'}
    goal.cancel()
    goal.result()
    last = fleet.scheduler[-1]
    assert (last.engine, last.mode, last.policy) == ('simulated', 'segmented', 'least_loss')
    assert last.kv_capacity_tokens > 0


def test_robot_state_follows_the_plan(fleet: Fleet) -> None:
    goal = fleet.plan('delay(10000);' * 3)
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
    assert state.call == 'delay(10000)'
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
    goal = fleet.plan(LONG)
    goal.wait_accepted()
    before = len(fleet.diagnostics)
    wait_for(lambda: len(fleet.diagnostics) > before + 1, 'diagnostics')
    statuses = {status.name.split(': ')[1]: status for status in fleet.diagnostics[-1].status}
    assert set(statuses) == {
        'queue',
        'engine',
        'KV cache',
        'deadlines',
        'admission',
        'parameters',
        'robot drone_1',
        'robot arm_1',
    }
    assert all(statuses[item].level == b'\x00' for item in ('queue', 'engine', 'KV cache')), (
        statuses
    )
    goal.cancel()
    goal.result()
