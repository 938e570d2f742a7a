"""Tasks, feedback and results as plain JSON values, for programs that do not speak ROS."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from timely_llm_ros.action import PlanTask
from timely_llm_ros.errors import InvalidTaskError
from timely_llm_ros.ros.conversions import tasks as conversions
from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.utility import TimeUtility

if TYPE_CHECKING:
    from collections.abc import Mapping

_OVERRUN = {name: number for number, name in conversions.OVERRUN_STRATEGIES.items()}
_WHEN_BUSY = {
    'abort': PlanTask.Goal.BUSY_ABORT,
    'queue': PlanTask.Goal.BUSY_QUEUE,
    'any': PlanTask.Goal.BUSY_ANY,
}
_PHASES = {
    PlanTask.Feedback.QUEUED: 'queued',
    PlanTask.Feedback.GENERATING: 'generating',
    PlanTask.Feedback.EXECUTING: 'executing',
    PlanTask.Feedback.WAITING: 'waiting',
    PlanTask.Feedback.UNAPPROVED: 'unapproved',
}
_STATUSES = {4: 'succeeded', 5: 'canceled', 6: 'aborted'}


REASONS = {
    getattr(PlanTask.Result, name): name.lower()
    for name in dir(type(PlanTask.Result))
    if name.isupper() and not name.startswith('_')
}
"""What the error codes of ``action/PlanTask`` are called."""


def goal_of(task: Mapping[str, Any]) -> PlanTask.Goal:
    """Return the goal of a task.

    Args:
        task: ``robot`` and ``instruction``; and, where wanted, ``skill_set``, ``task_kind``,
            ``scene`` (a list of objects with the fields of ``SceneObject``), ``utility`` (with the
            fields of ``TimeUtility``, without a floor where none is given), ``time_budget_s``,
            ``overrun``, ``when_busy``, ``client`` and ``history`` (a list of texts).

    Raises:
        InvalidTaskError: A value is missing, unknown or out of range.
    """
    known = {
        'key', 'robot', 'instruction', 'skill_set', 'task_kind', 'scene', 'utility',
        'time_budget_s', 'overrun', 'when_busy', 'client', 'history',
    }  # fmt: skip
    unknown = sorted(set(task) - known)
    if unknown:
        raise InvalidTaskError(f'task field {unknown[0]!r}: expected one of {sorted(known)}')
    try:
        scene = Scene(tuple(SceneObject(**item) for item in task.get('scene') or ()))
        utility = TimeUtility(**task['utility']) if task.get('utility') else None
        goal = PlanTask.Goal(
            robot=task['robot'],
            skill_set=task.get('skill_set', ''),
            instruction=task['instruction'],
            history=task.get('history', ()),
            task_kind=task.get('task_kind', ''),
            client=task.get('client', ''),
            scene=conversions.scene_messages(scene),
            overrun=_choice('overrun', task.get('overrun', 'kill'), _OVERRUN),
            when_busy=_choice('when_busy', task.get('when_busy', 'abort'), _WHEN_BUSY),
            time_budget=conversions.duration(task.get('time_budget_s')),
        )
    except KeyError as err:
        raise InvalidTaskError(f'task: field {err} is missing') from err
    except (TypeError, AssertionError, AttributeError) as err:
        raise InvalidTaskError(f'task: {err}') from err
    if utility is not None:
        goal.utility = conversions.utility_message(utility)
    return goal


def feedback_json(feedback: PlanTask.Feedback) -> dict[str, Any]:
    """Return a task's feedback."""
    return {
        'phase': _PHASES.get(feedback.phase, 'unknown'),
        'segments': feedback.segments,
        'call': feedback.call,
        'robot': feedback.robot,
        'why_robot': feedback.why_robot,
        'expected_remaining_s': conversions.seconds(feedback.expected_remaining),
        'expected_response_s': conversions.seconds(feedback.expected_response),
        'promised_response_s': conversions.seconds(feedback.promised_response),
        'expected_completion_s': conversions.seconds(feedback.expected_completion),
        'expected_utility': feedback.expected_utility,
        'demand': feedback.demand,
    }


def result_json(status: int, result: PlanTask.Result) -> dict[str, Any]:
    """Return how a task ended."""
    return {
        'status': _STATUSES.get(status, 'unknown'),
        'error_code': result.error_code,
        'error_name': REASONS.get(result.error_code, str(result.error_code)),
        'error': result.error_msg,
        'response_s': conversions.seconds(result.response_time),
        'waiting_s': conversions.seconds(result.waiting_time),
        'execution_s': conversions.seconds(result.execution_time),
        'completion_s': conversions.seconds(result.completion_time),
        'utility': result.utility if math.isfinite(result.utility) else 0.0,
        'tokens': result.tokens,
        'segments': result.segments,
        'replans': result.replans,
        'eviction_ratio': result.eviction_ratio,
        'generation_s': conversions.seconds(result.generation_time),
        'predicted_tokens': result.predicted_tokens,
        'predicted_s': conversions.seconds(result.predicted_generation_time),
        'worst_s': conversions.seconds(result.worst_generation_time),
    }


def _choice(field: str, value: str, choices: Mapping[str, int]) -> int:
    if value not in choices:
        raise InvalidTaskError(f'{field} {value!r}: expected one of {", ".join(choices)}')
    return choices[value]
