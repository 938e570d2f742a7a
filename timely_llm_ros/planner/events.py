"""The events by which the planner tells what happens to its tasks.

Topics, traces and the live view are made of them. Their times are on the planner's clock.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.execution import SegmentOutcome
    from timely_llm_ros.planner.budgets import BudgetedTask
    from timely_llm_ros.planner.task import Task, TaskPhase, TaskResult
    from timely_llm_ros.planner.worth import Expectation
    from timely_llm_ros.skills import Risk, Segment

_logger = logging.getLogger(__name__)

Event = TypeVar('Event')


@dataclass(frozen=True, slots=True)
class _OfTask:
    """What every event says: the task's id, the name of its robot, and when it happened (s)."""

    task_id: str
    robot: str
    at_s: float


@dataclass(frozen=True, slots=True)
class TaskAccepted(_OfTask):
    """A task passed validation; it ends with exactly one :class:`TaskEnded`.

    Attributes:
        task: The task.
        received_s: When it came, from which its times count (s).
        budgeted: How it will be generated within its time budget, where that was planned.
        expected: What it can expect; None where nothing was known.
    """

    task: Task
    received_s: float
    budgeted: BudgetedTask | None = None
    expected: Expectation | None = None


@dataclass(frozen=True, slots=True)
class PhaseChanged(_OfTask):
    """A task went on to another phase."""

    phase: TaskPhase


@dataclass(frozen=True, slots=True)
class SegmentReady(_OfTask):
    """A segment was generated, and goes to its robot once it needs no approval or has it.

    Attributes:
        segment: The segment.
        token_at_s: When the engine knew its closing token (s).
        generation_s: Engine time spent on it (s).
        expected_execution_s: By the skill set's duration models (s).
        kv_tokens: Tokens of KV that its generation holds.
        fallback: Why it is of a fallback plan; empty where an engine generated it.
    """

    segment: Segment
    token_at_s: float
    generation_s: float
    expected_execution_s: float
    kv_tokens: int
    fallback: str = ''


@dataclass(frozen=True, slots=True)
class ApprovalAsked(_OfTask):
    """A segment waits for somebody's approval; it ends with exactly one :class:`ApprovalEnded`.

    Attributes:
        task: Its task.
        segment: Its index.
        text: Its text.
        skills: Names of the skills that make it wait.
        risk: The highest risk of these.
        until_s: When it counts as refused (s).
    """

    task: Task
    segment: int
    text: str
    skills: tuple[str, ...]
    risk: Risk
    until_s: float


ApprovalEnding = Literal['approved', 'refused', 'timed out', 'withdrawn']
"""``timed out``: nobody decided in time. ``withdrawn``: the task ended before anybody did."""


@dataclass(frozen=True, slots=True)
class ApprovalEnded(_OfTask):
    """A segment waits for approval no more; ``who`` and ``reason`` are the decider's words."""

    segment: int
    ending: ApprovalEnding
    who: str = ''
    reason: str = ''


@dataclass(frozen=True, slots=True)
class SegmentStarted(_OfTask):
    """A robot started a segment's first call, after ``waiting_s`` of having nothing to do."""

    index: int
    waiting_s: float


@dataclass(frozen=True, slots=True)
class CallStarted(_OfTask):
    """A robot started a call; calls shorter than the progress period may go unreported."""

    index: int
    call: str
    remaining_s: float


@dataclass(frozen=True, slots=True)
class SegmentEnded(_OfTask):
    """A segment that was sent to a robot ended there, or was dropped before it started."""

    outcome: SegmentOutcome


@dataclass(frozen=True, slots=True)
class TaskEnded(_OfTask):
    """A task ended."""

    result: TaskResult


PlannerEvent = (
    TaskAccepted
    | PhaseChanged
    | SegmentReady
    | ApprovalAsked
    | ApprovalEnded
    | SegmentStarted
    | CallStarted
    | SegmentEnded
    | TaskEnded
)
"""Every event of the planner."""


def tell(observer: Callable[[Event], None] | None, event: Event) -> None:
    """Call an observer where there is one; its exception is logged and stops nothing."""
    try:
        if observer is not None:
            observer(event)
    except Exception:
        _logger.exception('observer of %s', type(event).__name__)
