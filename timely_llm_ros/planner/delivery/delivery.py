"""Sends one task's segments to its robot, follows them there and stops them together."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from timely_llm_ros.errors import (
    Ending,
    ExecutionError,
    NotApprovedError,
    RobotUnavailableError,
    TimelyError,
)
from timely_llm_ros.execution import SegmentCode, SegmentOutcome
from timely_llm_ros.planner.delivery.timeline import Timeline
from timely_llm_ros.planner.events import CallStarted, SegmentEnded, SegmentStarted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from timely_llm_ros.execution import RobotLink, SegmentProgress, TimedSegment
    from timely_llm_ros.planner.context import PlannerContext
    from timely_llm_ros.planner.permission import Approval
    from timely_llm_ros.planner.task import Task
    from timely_llm_ros.skills import Segment, SkillSet

_logger = logging.getLogger(__name__)

SKILL_FAILURES = (SegmentCode.SKILL_FAILED, SegmentCode.DRIVER_TIMEOUT)
"""How a segment ends that its robot could not do, though nobody wanted it to stop."""

_CANCELED = Ending(SegmentCode.CANCELED, 'cancelled')


@dataclass(slots=True)
class _Item:
    """A segment on its way to the robot or on it; ``as_of_s`` is None until it starts."""

    timed: TimedSegment
    remaining_s: float
    as_of_s: float | None = None
    call: str = ''
    approval: Approval | None = None
    execution: asyncio.Task[None] | None = None


class Delivery:
    """One task's segments on its robot. It also keeps the task's timeline.

    Args:
        task: The task.
        link: Its robot.
        skill_set: The robot's skills.
        context: What the planner's tasks share.
        received_s: When the task came (s).
        robot_free: Waits until the tasks that this one took over from have left the robot.
        on_progress: Called when the robot is expected to be idle at another time than before.
        on_success: Called with a segment that was done and its outcome.
        on_failure: Called with the ending that a segment's failure means for the task.
    """

    def __init__(
        self,
        task: Task,
        link: RobotLink,
        skill_set: SkillSet,
        context: PlannerContext,
        *,
        received_s: float,
        robot_free: Callable[[], Awaitable[object]],
        on_progress: Callable[[], None],
        on_success: Callable[[Segment, SegmentOutcome], None],
        on_failure: Callable[[Ending], None],
    ) -> None:
        self.timeline = Timeline(received_s)
        self.touched_robot = False
        """Whether anything was sent to the robot."""
        self.skill_failed = False
        """Whether the robot could not do a segment; see ``SKILL_FAILURES``."""
        self._task, self._link, self._context = task, link, context
        self._skill_set = skill_set
        self._robot_free = robot_free
        # Further segments wait here.
        self._places = asyncio.Semaphore(skill_set.limits.queued_segments)
        self._in_order = asyncio.Lock()
        self._on_progress, self._on_success, self._on_failure = on_progress, on_success, on_failure
        self._items: dict[int, _Item] = {}
        self._announced = 0

    @property
    def busy(self) -> bool:
        """Whether a segment is on its way to the robot or on it."""
        return bool(self._items)

    @property
    def awaits_approval(self) -> bool:
        """Whether the first of those waits for approval."""
        return self._approval_s > 0.0

    @property
    def _approval_s(self) -> float:
        """How long the first of those may still wait for approval (s)."""
        first = next(iter(self._items.values()), None)
        if first is None or first.approval is None or first.approval.decision.done():
            return 0.0
        return max(1e-9, first.approval.until_s - self._context.clock.now())

    @property
    def awaits_value(self) -> bool:
        """Whether one of those is to return a value."""
        return any(item.timed.segment.awaits_value for item in self._items.values())

    @property
    def call(self) -> str:
        """Text of the call in hand; empty where there is none."""
        return next((item.call for item in self._items.values() if item.call), '')

    @property
    def remaining_s(self) -> float:
        """Expected execution time left (s)."""
        now_s = self._context.clock.now()
        return sum(
            item.remaining_s
            if item.as_of_s is None
            else max(0.0, item.remaining_s - (now_s - item.as_of_s))
            for item in self._items.values()
        )

    @property
    def idle_at_s(self) -> float:
        """When the robot is expected to have nothing to do, or since when it has nothing (s)."""
        if self._items:
            # Until somebody approves it, nobody knows when; then it is told anew.
            return self._context.clock.now() + self._approval_s + self.remaining_s
        return self.timeline.idle_since_s

    def send(self, timed: TimedSegment) -> None:
        """Send a segment to the robot."""
        index = timed.segment.index
        item = self._items[index] = _Item(timed, timed.expected_execution_s)
        item.approval = self._context.approvals.ask(self._task, self._skill_set, timed.segment)
        item.execution = self._context.group.spawn(
            self._execute(timed, item.approval), f'segment {index} of {self._task.task_id}'
        )

    async def stop(self) -> None:
        """Stop everything and, where anything was sent, have the robot do its safe action.

        Takes at most two stop limits; a robot that does not answer is logged. Raises nothing.
        """
        limit_s = self._context.config.stop_limit_s
        # The last one first, so that none starts because the one before it ended.
        executions = [item.execution for item in self._items.values() if item.execution][::-1]
        for execution in executions:
            execution.cancel()
        try:
            if executions:
                _, running = await asyncio.wait(executions, timeout=limit_s)
                for execution in running:
                    _logger.error('%s does not end after a cancel', execution.get_name())
                    # Its robot is told to stop now, and nobody waits for what the link says.
                    execution.cancel()
            if self.touched_robot:
                async with asyncio.timeout(limit_s):
                    await self._link.stop()
        except (TimelyError, TimeoutError) as err:
            _logger.warning('robot %s: safe action not confirmed: %r', self._task.robot, err)
        except Exception:
            _logger.exception('robot %s: safe action not confirmed', self._task.robot)
        finally:
            for index in tuple(self._items):
                self._close(SegmentOutcome(index, _CANCELED))

    def leave(self) -> None:
        """Call back no more: what has ended goes with its last reference, without a collector."""
        self._on_progress = self._on_success = self._on_failure = _ignore

    async def _execute(self, timed: TimedSegment, approval: Approval | None) -> None:
        segment = timed.segment
        try:
            # One that waits for approval is not overtaken.
            async with self._in_order:
                if approval is not None:
                    await self._context.approvals.wait(approval)
                    self._on_progress()
            await self._robot_free()
            async with self._places:
                self.touched_robot = True
                outcome = await self._link.execute(timed, partial(self._follow, segment))
            self._close(outcome)
            if outcome.succeeded:
                self._on_success(segment, outcome)
            else:
                self._on_failure(_ending_of(segment, outcome))
        except asyncio.CancelledError:
            self._close(SegmentOutcome(segment.index, _CANCELED))
            # Counts only if it was not the planner that cancelled: then the link gave up.
            lost = RobotUnavailableError(f'robot {self._task.robot!r}: its link was closed')
            self._on_failure(Ending.of(lost))
            raise
        except TimelyError as err:
            refused = isinstance(err, NotApprovedError)
            code = SegmentCode.NOT_APPROVED if refused else SegmentCode.ROBOT_LOST
            self._close(SegmentOutcome(segment.index, Ending(code, str(err))))
            self._on_failure(Ending.of(err))
        except Exception as err:
            _logger.exception('robot %s', self._task.robot)
            text = f'robot {self._task.robot!r}: {err!r}'
            self._close(SegmentOutcome(segment.index, Ending(SegmentCode.ROBOT_LOST, text)))
            self._on_failure(Ending(TimelyError.code, text))

    def _follow(self, segment: Segment, progress: SegmentProgress) -> None:
        item = self._items.get(segment.index)
        if item is None:
            return
        now_s = self._context.clock.now()
        self.timeline.start(segment.index, now_s - progress.elapsed_s)
        self._announce_starts()
        if progress.current_call != item.call:
            item.call = progress.current_call
            self._context.emit(
                CallStarted(
                    self._task.task_id,
                    self._task.robot,
                    now_s,
                    segment.index,
                    progress.current_call,
                    progress.remaining_s,
                )
            )
        item.remaining_s, item.as_of_s = progress.remaining_s, now_s
        self._on_progress()

    def _close(self, outcome: SegmentOutcome) -> None:
        """Book the end of a segment on the robot; only its first one counts."""
        item = self._items.pop(outcome.index, None)
        if item is None:
            return
        if item.approval is not None:
            self._context.approvals.withdraw(item.approval)
        self.skill_failed |= outcome.ending.code in SKILL_FAILURES
        now_s = self._context.clock.now()
        if outcome.calls and not self.timeline.has_started(outcome.index):
            # Its progress was lost on the way.
            self.timeline.start(outcome.index, now_s - outcome.execution_s)
        if self.timeline.has_started(outcome.index):
            measured = outcome.succeeded or outcome.execution_s > 0
            since_s = now_s - self.timeline.start_s(outcome.index)
            self.timeline.end(outcome.index, outcome.execution_s if measured else since_s)
        self._announce_starts(outcome.index + 1)
        self._context.emit(SegmentEnded(self._task.task_id, self._task.robot, now_s, outcome))
        self._announce_starts()

    def _announce_starts(self, below: int | None = None) -> None:
        """Announce the starts that are settled, up to an index."""
        waits_s = self.timeline.waits_s[:below]
        for index in range(self._announced, len(waits_s)):
            start_s = self.timeline.start_s(index)
            self._context.emit(
                SegmentStarted(self._task.task_id, self._task.robot, start_s, index, waits_s[index])
            )
        self._announced = max(self._announced, len(waits_s))


def _ignore(*_: object) -> None:
    pass


def _ending_of(segment: Segment, outcome: SegmentOutcome) -> Ending:
    lost = outcome.ending.code == SegmentCode.ROBOT_LOST
    code = RobotUnavailableError.code if lost else ExecutionError.code
    return Ending(code, f'segment {segment.index}, {segment.text!r}: {outcome.ending.message}')
