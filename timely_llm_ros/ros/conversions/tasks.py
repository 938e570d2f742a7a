"""Between ROS messages and the records of the program.

What comes from outside is checked here: a message that does not make a valid record raises
``InvalidTaskError`` or ``PlanError`` and nothing else.
"""

from __future__ import annotations

import math
import uuid
from typing import TYPE_CHECKING, Any

from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration, Time
from geometry_msgs.msg import Point
from std_msgs.msg import Header
from unique_identifier_msgs.msg import UUID

from timely_llm_ros.action import PlanTask
from timely_llm_ros.errors import InvalidTaskError
from timely_llm_ros.msg import SceneObject as SceneObjectMessage
from timely_llm_ros.msg import TimeUtility as TimeUtilityMessage
from timely_llm_ros.planner import (
    Expectation,
    Task,
    TaskFeedback,
    TaskPhase,
    TaskResult,
    TaskStatus,
)
from timely_llm_ros.skills import Scene, SceneObject, turns
from timely_llm_ros.utility import TimeUtility

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.budget import TaskBudget
    from timely_llm_ros.skills import SkillSet

MAX_OBJECTS = 1000
"""Objects that a scene may have when it comes over ROS."""

_NANO = 1_000_000_000
_MAX_SECONDS = 2**31 - 1


# Basic types


def duration(seconds: float | None) -> Duration:
    """Return a duration message; None counts as 0, what does not fit is clamped."""
    if seconds is None or math.isnan(seconds):
        return Duration()
    clamped = min(max(seconds, -_MAX_SECONDS), _MAX_SECONDS)
    whole, nanoseconds = divmod(round(clamped * _NANO), _NANO)
    return Duration(sec=whole, nanosec=nanoseconds)


def seconds(message: Duration) -> float:
    """Return a duration message's length (s)."""
    return float(message.sec + message.nanosec / _NANO)


def _time(seconds: float) -> Time:
    whole, nanoseconds = divmod(round(seconds * _NANO), _NANO)
    return Time(sec=min(whole, _MAX_SECONDS), nanosec=nanoseconds)


def uuid_text(message: UUID) -> str:
    """Return an id as text."""
    return str(uuid.UUID(bytes=bytes(message.uuid)))


def uuid_message(text: str) -> UUID:
    """Return the message of an id; text that is no UUID gives zeros."""
    try:
        return UUID(uuid=list(uuid.UUID(text).bytes))
    except ValueError:
        return UUID()


# Scenes


def scene_record(messages: list[SceneObjectMessage]) -> Scene:
    """Return a scene.

    Raises:
        InvalidTaskError: An object is malformed, a name comes twice, or there are too many.
    """
    if len(messages) > MAX_OBJECTS:
        raise InvalidTaskError(f'{len(messages)} objects: expected at most {MAX_OBJECTS}')
    return Scene(tuple(map(_object_record, messages)))


def _object_record(message: SceneObjectMessage) -> SceneObject:
    return SceneObject(
        name=message.name,
        kind=message.kind,
        attribute=message.attribute or 'plain',
        relation=message.relation or 'on',
        support=message.support or 'floor',
        x_m=message.position.x,
        y_m=message.position.y,
        z_m=message.position.z,
        frame=message.header.frame_id,
        stamp_s=message.header.stamp.sec + message.header.stamp.nanosec / _NANO,
    )


def object_message(item: SceneObject) -> SceneObjectMessage:
    """Return an object's message."""
    return SceneObjectMessage(
        name=item.name,
        kind=item.kind,
        attribute=item.attribute,
        relation=item.relation,
        support=item.support,
        position=Point(x=item.x_m, y=item.y_m, z=item.z_m),
        header=Header(frame_id=item.frame, stamp=_time(item.stamp_s)),
    )


def scene_messages(scene: Scene) -> list[SceneObjectMessage]:
    """Return the messages of a scene's objects."""
    return [object_message(item) for item in scene.objects]


# Tasks


def utility_record(message: TimeUtilityMessage, default: TimeUtility) -> TimeUtility:
    """Return a time utility; a peak of 0 stands for the default, which has no floor.

    Raises:
        InvalidTaskError: A value is out of range.
    """
    if message.peak == 0:
        return default
    return TimeUtility(
        seconds(message.expected_response), message.slope_per_s, message.peak, message.floor
    )


def utility_message(utility: TimeUtility) -> TimeUtilityMessage:
    """Return a time utility's message."""
    return TimeUtilityMessage(
        expected_response=duration(utility.expected_response_s),
        slope_per_s=utility.slope_per_s,
        peak=utility.peak,
        floor=utility.floor,
    )


def task_record(
    goal: PlanTask.Goal,
    task_id: str,
    *,
    skill_set_of: Mapping[str, str],
    default_utility: TimeUtility,
    skill_sets: Mapping[str, SkillSet] | None = None,
) -> Task:
    """Return the task of a goal, with the default utility where the goal gives none.

    Raises:
        InvalidTaskError: It names something unknown or carries a value out of range.
    """
    (robot, own), *others = _robots(goal, skill_set_of, skill_sets or {})
    overrun = _choice('overrun', goal.overrun, OVERRUN_STRATEGIES)
    when_busy = _choice('when_busy', goal.when_busy, WHEN_BUSY)
    if not goal.robot:
        # A client that leaves the robot to the planner knows no plan that may be ended for it.
        when_busy = 'queue'
    budget_s = seconds(goal.time_budget)
    return Task(
        task_id=task_id,
        robot=robot,
        skill_set=own,
        instruction=goal.instruction,
        scene=scene_record(goal.scene),
        utility=utility_record(goal.utility, default_utility),
        time_budget_s=budget_s if budget_s != 0 else None,
        overrun=overrun,
        when_busy=when_busy,
        task_kind=goal.task_kind[:64],
        client=_client(goal.client),
        alternatives=tuple(others),
        history=turns(goal.history),
    )


MOST_CLIENT_LETTERS = 64


def _client(name: str) -> str:
    # Cut, it might be the name of another client, who may more.
    if len(name) > MOST_CLIENT_LETTERS:
        problem = f'{len(name)} characters: expected at most {MOST_CLIENT_LETTERS}'
        raise InvalidTaskError(f'client {name[:MOST_CLIENT_LETTERS]!r}...: {problem}')
    return name


OVERRUN_STRATEGIES: dict[int, Any] = {
    PlanTask.Goal.OVERRUN_KILL: 'kill',
    PlanTask.Goal.OVERRUN_SKIP_NEXT: 'skip_next',
}
WHEN_BUSY: dict[int, Any] = {
    PlanTask.Goal.BUSY_ABORT: 'abort',
    PlanTask.Goal.BUSY_QUEUE: 'queue',
    PlanTask.Goal.BUSY_ANY: 'queue',
}


def _robots(
    goal: PlanTask.Goal, skill_set_of: Mapping[str, str], skill_sets: Mapping[str, SkillSet]
) -> list[tuple[str, str]]:
    """Return the robots that may do a goal, each with its skill set, the one it names first."""
    wanted, own = goal.skill_set, skill_set_of.get(goal.robot)
    if not goal.robot and wanted:
        able = {
            name for name, found in skill_sets.items() if wanted == name or wanted in found.skills
        }
        robots = [pair for pair in skill_set_of.items() if pair[1] in able]
        if not robots:
            known = ', '.join(sorted(skill_sets)) or 'none is known'
            raise InvalidTaskError(
                f'skill set {wanted[:80]!r}: expected one of {known}, or a skill of one'
            )
        return robots
    if own is None:
        known = ', '.join(sorted(skill_set_of)) or 'none is known'
        raise InvalidTaskError(
            f'robot {goal.robot!r}: expected one of {known}, or "" and a skill set'
        )
    if wanted not in ('', own):
        raise InvalidTaskError(
            f'skill set {wanted!r}: expected robot {goal.robot!r}\'s own, {own!r}, or ""'
        )
    alike = goal.when_busy == PlanTask.Goal.BUSY_ANY
    others = [(it, name) for it, name in skill_set_of.items() if it != goal.robot and name == own]
    return [(goal.robot, own), *(others if alike else ())]


def _choice(field: str, value: int, choices: Mapping[int, Any]) -> Any:
    if value not in choices:
        expected = ', '.join(f'{number} ({name})' for number, name in choices.items())
        raise InvalidTaskError(f'{field} {value}: expected one of {expected}')
    return choices[value]


_FEEDBACK_PHASES = {
    TaskPhase.QUEUED: PlanTask.Feedback.QUEUED,
    TaskPhase.GENERATING: PlanTask.Feedback.GENERATING,
    TaskPhase.EXECUTING: PlanTask.Feedback.EXECUTING,
    TaskPhase.HELD: PlanTask.Feedback.EXECUTING,
    TaskPhase.WAITING: PlanTask.Feedback.WAITING,
    TaskPhase.UNAPPROVED: PlanTask.Feedback.UNAPPROVED,
    TaskPhase.STOPPING: PlanTask.Feedback.EXECUTING,
    TaskPhase.ENDED: PlanTask.Feedback.EXECUTING,
}


def task_feedback_message(feedback: TaskFeedback) -> PlanTask.Feedback:
    """Return a task's feedback message; a held task counts as executing."""
    expected = feedback.expected
    told = {} if expected is None else expectation_fields(expected)
    if expected is not None:
        told['expected_completion'] = duration(expected.completion_s)
        told['expected_utility'] = expected.utility
    return PlanTask.Feedback(
        phase=_FEEDBACK_PHASES[feedback.phase],
        segments=feedback.segments,
        call=feedback.call,
        expected_remaining=duration(feedback.expected_remaining_s),
        demand=feedback.demand,
        **told,
    )


def expectation_fields(expected: Expectation) -> dict[str, Any]:
    """Return what both feedback and task events say of a task's expectation, by field."""
    return {
        'expected_response': duration(expected.response_s),
        'promised_response': duration(expected.promised_s),
    }


def task_result_message(result: TaskResult) -> PlanTask.Result:
    """Return a task's result message."""
    return PlanTask.Result(utility=result.utility, replans=result.replans, **result_fields(result))


def result_fields(result: TaskResult) -> dict[str, Any]:
    """Return what both ``PlanTask`` results and task events say of how a task ended, by field."""
    predicted = {} if result.budget is None else prediction_fields(result.budget)
    return {
        'error_code': result.ending.code,
        'error_msg': result.ending.message,
        'response_time': duration(result.response_s),
        'waiting_time': duration(result.waiting_s),
        'execution_time': duration(result.execution_s),
        'completion_time': duration(result.completion_s),
        'tokens': result.tokens,
        'segments': result.segments,
        'eviction_ratio': result.eviction_ratio,
        'generation_time': duration(result.generation_s),
        **predicted,
    }


def prediction_fields(budget: TaskBudget) -> dict[str, Any]:
    """Return what both results and task events say of a prediction, by field."""
    return {
        'predicted_tokens': budget.predicted_length,
        'predicted_generation_time': duration(budget.expected_s),
        'worst_generation_time': duration(budget.worst_s),
    }


GOAL_STATUS = {
    TaskStatus.SUCCEEDED: GoalStatus.STATUS_SUCCEEDED,
    TaskStatus.CANCELED: GoalStatus.STATUS_CANCELED,
    TaskStatus.ABORTED: GoalStatus.STATUS_ABORTED,
}
"""The goal status that stands for a task's status."""
