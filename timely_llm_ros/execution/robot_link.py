"""What the planner knows of a robot: a link that runs segments and can be stopped.

Over ROS the link is a ``RosRobotLink``; in simulation and tests it is a ``LocalRobotLink``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from timely_llm_ros.errors import Ending

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.skills import Scene, Segment


class SegmentCode(IntEnum):
    """How a segment ended on its robot: the ``error_code`` of ``action/ExecuteSegment``."""

    NONE = 0
    """Every call was done."""
    INVALID_SEGMENT = 1
    """It does not fit the robot's skill set or its place in the plan; it did not start."""
    SKILL_FAILED = 2
    """The driver refused a skill or the robot reported failure."""
    DRIVER_TIMEOUT = 3
    """A skill did not end within its limit."""
    CANCELED = 4
    """It was cancelled, the robot was stopped, or an earlier segment of its plan failed."""
    PLANNER_LOST = 5
    """The planner fell silent; the robot was brought to its safe action."""
    SUPERSEDED = 6
    """A segment of another plan arrived."""
    SHUTDOWN = 7
    """The executor went down."""
    ROBOT_LOST = 8
    """The driver lost contact with the robot."""
    FENCED = 9
    """The robot works for another planner, which is alive."""
    HALTED = 10
    """Somebody halted the robot, and nobody has released it."""
    OUT_OF_ENVELOPE = 11
    """A call would break a rule of the robot's envelope; the driver has not seen it."""
    NOT_APPROVED = 12
    """It needed approval and did not get it; its robot has not seen it."""


SUCCESS = Ending(SegmentCode.NONE)
"""How a segment ends if every call was done."""


@dataclass(frozen=True, slots=True)
class TimedSegment:
    """A segment on its way to its robot, and what the planner knows of its times.

    Attributes:
        plan_id: The task's id; segments of one plan share it.
        segment: The statements to run.
        scene: Has the objects that they name.
        token_at_s: When the engine knew the segment's last token (s), on the planner's clock.
        generation_s: Engine time spent on the segment (s).
        expected_execution_s: How long the robot should take, by its skill set's durations (s).
    """

    plan_id: str
    segment: Segment
    scene: Scene
    token_at_s: float
    generation_s: float
    expected_execution_s: float


@dataclass(frozen=True, slots=True)
class SegmentProgress:
    """How far a segment is. The first progress comes when the segment's first call starts.

    Attributes:
        index: Which segment of its plan.
        current_call: Text of the call that runs.
        elapsed_s: Time since the segment's first call started (s).
        remaining_s: Expected time until the segment ends (s), never negative.
        call_number: Calls started so far, the current one included; 0 if unknown.
    """

    index: int
    current_call: str
    elapsed_s: float
    remaining_s: float
    call_number: int = 0


@dataclass(frozen=True, slots=True)
class SegmentOutcome:
    """How a segment ended.

    Attributes:
        index: Which segment of its plan.
        ending: Its code is a :class:`SegmentCode`.
        calls: Texts of the calls that were started, in order, loops unrolled.
        call_durations_s: How long each of them took (s).
        execution_s: Time from the first call's start to the end (s); 0 if none started.
        value: What the awaited blocking call returned, ``true``/``false`` for a bool; else None.
    """

    index: int
    ending: Ending = SUCCESS
    calls: tuple[str, ...] = ()
    call_durations_s: tuple[float, ...] = ()
    execution_s: float = 0.0
    value: str | None = None

    @property
    def succeeded(self) -> bool:
        """Whether every call was done."""
        return self.ending.succeeded


class RobotLink(Protocol):
    """One robot, as the planner sees it."""

    @property
    def available(self) -> bool:
        """Whether the robot's executor answers."""
        ...

    @property
    def halted(self) -> bool:
        """Whether it takes no segments until somebody releases it."""
        ...

    @property
    def inactive(self) -> bool:
        """Whether it takes no segments until somebody activates its executor."""
        ...

    async def execute(
        self, timed: TimedSegment, on_progress: Callable[[SegmentProgress], None]
    ) -> SegmentOutcome:
        """Run one segment and return how it ended.

        The planner sends a segment as soon as it is generated, so several of one plan may be under
        way: the robot queues them and runs them in index order. After one that did not succeed it
        starts no other of that plan. Cancelling the awaiting coroutine cancels the segment; the
        coroutine ends only when the robot has been told its safe action. ``on_progress`` is called
        on the loop's thread, 10 times per second at most.

        Raises:
            RobotUnavailableError: The executor cannot be reached or went away.
        """
        ...

    async def stop(self) -> None:
        """Bring the robot to its safe action; whatever runs or waits on it ends CANCELED.

        Raises:
            RobotUnavailableError: The executor cannot be reached or went away.
        """
        ...
