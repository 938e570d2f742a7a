"""A task, how far it is, and how it ended."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal, get_args

from timely_llm_ros.errors import InvalidTaskError, TaskCanceledError
from timely_llm_ros.skills import instruction_words, require_turns

if TYPE_CHECKING:
    from timely_llm_ros.budget import TaskBudget
    from timely_llm_ros.errors import Ending
    from timely_llm_ros.planner.worth import Expectation
    from timely_llm_ros.skills import Message, Scene
    from timely_llm_ros.utility import TimeUtility

OverrunStrategy = Literal['kill', 'skip_next']
"""What happens when the time budget passes before the generation ended.

``kill``: the generation stops, segments already delivered are still executed, and the task ends
with BUDGET_OVERRUN. ``skip_next``: it runs on, and the tasks of the same robot that were queued
before it ended are refused.
"""

WhenBusy = Literal['abort', 'queue']
"""What a task does with its robot's current task: take its place, or wait behind it."""


@dataclass(frozen=True, slots=True)
class Task:
    """One request for a plan.

    Attributes:
        task_id: Unique among the planner's tasks that have not ended.
        robot: Name of the robot that is to do it.
        skill_set: Name of that robot's skill set.
        instruction: What to do, in words.
        scene: The objects around the robot.
        utility: What an answer is worth as a function of how late it comes.
        time_budget_s: Time (s) from the task's arrival within which the whole generation must end;
            None for no limit.
        overrun: What happens if it does not.
        when_busy: What becomes of the robot's current task.
        task_kind: Free label; what plans cost is learned by it.
        client: Who asks, of those that share the planner.
        alternatives: Further robots that may do it, each with its skill set; the planner gives it
            to whichever is expected to earn most.
        why_robot: Why ``robot`` does it, where the planner chose it.
        goal_id: Id of the goal's first task, where this is a further plan for that goal.
        history: What was said in a chat before, by user and assistant in turn; see
            ``read_messages``.

    Raises:
        InvalidTaskError: A value is empty or out of range, or the instruction has control
            characters.
    """

    task_id: str
    robot: str
    skill_set: str
    instruction: str
    scene: Scene
    utility: TimeUtility
    time_budget_s: float | None = None
    overrun: OverrunStrategy = 'kill'
    when_busy: WhenBusy = 'abort'
    task_kind: str = ''
    client: str = ''
    alternatives: tuple[tuple[str, str], ...] = ()
    why_robot: str = ''
    goal_id: str = ''
    history: tuple[Message, ...] = ()

    def __post_init__(self) -> None:
        if not self.task_id:
            raise InvalidTaskError(f'task id {self.task_id!r}: expected some text')
        instruction_words(self.instruction)
        require_turns(self.history)
        budget_s = self.time_budget_s
        if budget_s is not None and not (math.isfinite(budget_s) and budget_s > 0):
            raise InvalidTaskError(f'time budget {budget_s!r} s: expected a finite number > 0')
        if self.overrun not in get_args(OverrunStrategy):
            raise InvalidTaskError(
                f'overrun strategy {self.overrun!r}: expected one of {get_args(OverrunStrategy)}'
            )
        if self.when_busy not in get_args(WhenBusy):
            raise InvalidTaskError(
                f'when_busy {self.when_busy!r}: expected one of {get_args(WhenBusy)}'
            )


class TaskPhase(Enum):
    """Where a task is in its life."""

    QUEUED = 'queued'
    """It waits behind its robot's current task; nothing is generated."""
    GENERATING = 'generating'
    """It has no segment yet."""
    EXECUTING = 'executing'
    """Its robot has a segment; the next may be generated meanwhile."""
    UNAPPROVED = 'unapproved'
    """Its robot has done every segment before the next one, which waits for approval."""
    HELD = 'held'
    """Its robot has the segment whose value the generation waits for."""
    WAITING = 'waiting'
    """Its robot has done every segment so far and waits for the next."""
    STOPPING = 'stopping'
    """It is being ended: the generation is dropped and the robot brought to its safe action."""
    ENDED = 'ended'
    """Its result is known."""


class TaskStatus(Enum):
    """The terminal statuses of a task; ROS has the same ones for an action goal."""

    SUCCEEDED = 'succeeded'
    """The whole plan was executed."""
    CANCELED = 'canceled'
    """The client cancelled it."""
    ABORTED = 'aborted'
    """Anything else; the error code says what."""


@dataclass(frozen=True, slots=True)
class TaskFeedback:
    """How far a task is.

    Attributes:
        phase: Where it is in its life.
        segments: Segments generated so far.
        expected_remaining_s: Expected time (s) until the robot has done those.
        call: Text of the call that the robot is at; empty where there is none.
        expected: What it could expect when it was accepted; None where nothing was known.
        demand: How much of the engine is asked for; above 1 it is more than there is.
    """

    phase: TaskPhase
    segments: int
    expected_remaining_s: float
    call: str = ''
    expected: Expectation | None = None
    demand: float = 0.0


@dataclass(frozen=True, slots=True)
class TaskResult:
    """How a task ended, with the times (s) that ``docs/concepts.md`` defines.

    Attributes:
        ending: Its code is 0, or the ``code`` of a class in ``errors.py``.
        response_s: From the task's arrival to the start of the first action; None without one.
        waiting_s: The robot's waits, one for each segment that started, summed.
        execution_s: The execution times of the segments that started, summed.
        completion_s: ``waiting_s + execution_s``.
        utility: Time utility of the response; 0 without one.
        tokens: Tokens generated.
        segments: Segments executed to their end.
        waits_s: The waits, in order.
        eviction_ratio: Share of the prompt's KV that was evicted.
        generation_s: From the task's arrival to the end of its generation, whatever ended it.
        budget: What was decided for its time budget, where that was planned.
        skill_failed: Whether its robot could not do a skill, or not within its limit.
        replans: How many further plans were made because a skill failed; see ``Tries``.
    """

    ending: Ending
    response_s: float | None
    waiting_s: float
    execution_s: float
    completion_s: float
    utility: float
    tokens: int
    segments: int
    waits_s: tuple[float, ...] = ()
    eviction_ratio: float = 0.0
    generation_s: float = 0.0
    budget: TaskBudget | None = None
    skill_failed: bool = False
    replans: int = 0

    @property
    def status(self) -> TaskStatus:
        """The terminal status that belongs to the error code."""
        if self.ending.succeeded:
            return TaskStatus.SUCCEEDED
        if self.ending.code == TaskCanceledError.code:
            return TaskStatus.CANCELED
        return TaskStatus.ABORTED
