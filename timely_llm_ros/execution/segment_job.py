"""Does one segment on one driver: makes its calls one by one, times each and limits it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from timely_llm_ros.errors import (
    DriverTimeoutError,
    Ending,
    EnvelopeError,
    RobotUnavailableError,
    SkillFailedError,
    TimelyError,
)
from timely_llm_ros.execution.call_walker import steps
from timely_llm_ros.execution.robot_link import (
    SUCCESS,
    SegmentCode,
    SegmentOutcome,
    SegmentProgress,
)
from timely_llm_ros.skills import expected_execution_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.execution.call_walker import Step
    from timely_llm_ros.execution.driver import CallValue, Driver
    from timely_llm_ros.execution.fence import Fence
    from timely_llm_ros.execution.limits import ExecutorLimits
    from timely_llm_ros.skills import Scene, Segment, SkillSet

_logger = logging.getLogger(__name__)

MIN_PROGRESS_PERIOD_S = 0.1
"""Progress comes at most this often (s), a segment's first excepted."""

_TIME_STEP_S = 1e-6
"""A shorter wait (s) may not move a floating-point clock at all."""


class _HaltedError(Exception):
    """The segment was told to end."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.message)
        self.ending = ending


class SegmentJob:
    """One segment that an executor was given. What ``on_progress`` raises is logged."""

    def __init__(
        self,
        plan_id: str,
        segment: Segment,
        scene: Scene,
        on_progress: Callable[[SegmentProgress], None],
        *,
        skill_set: SkillSet,
        clock: Clock,
    ) -> None:
        self.plan_id, self.segment, self.scene = plan_id, segment, scene
        loop = asyncio.get_running_loop()
        self.outcome: asyncio.Future[SegmentOutcome] = loop.create_future()
        """How the segment ended; the executor sets it once the robot is safe."""
        self._on_progress, self._skill_set, self._clock = on_progress, skill_set, clock
        self._fence: Fence | None = None
        self._halt: Ending | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._started_s: float | None = None
        self._calls: list[str] = []
        self._durations_s: list[float] = []
        self._remaining_s = expected_execution_s(segment.statements, skill_set, scene)
        self._remaining_as_of_s: float | None = None
        self._reported_s = float('-inf')

    @property
    def call(self) -> str:
        """Text of the latest call; empty before the first."""
        return self._calls[-1] if self._calls else ''

    @property
    def elapsed_s(self) -> float:
        """Time since its first call started."""
        return 0.0 if self._started_s is None else self._clock.now() - self._started_s

    @property
    def remaining_s(self) -> float:
        """Expected time until it ends."""
        if self._remaining_as_of_s is None:
            return self._remaining_s
        return max(0.0, self._remaining_s - (self._clock.now() - self._remaining_as_of_s))

    def halt(self, ending: Ending) -> None:
        """Have the segment end at once; of several endings the first counts."""
        if self._halt is None:
            self._halt = ending
            self._wake()

    def ended(self, ending: Ending, value: str | None = None) -> SegmentOutcome:
        """Return the outcome if the segment ends now."""
        return SegmentOutcome(
            self.segment.index,
            ending,
            tuple(self._calls),
            tuple(self._durations_s),
            self.elapsed_s,
            value,
        )

    async def run(
        self, driver: Driver, limits: ExecutorLimits, fence: Fence | None = None
    ) -> SegmentOutcome:
        """Make the calls that the fence lets pass; the outcome says what went wrong.

        The caller makes the robot safe.
        """
        self._fence = fence
        try:
            value = await self._walk(driver, limits)
        except _HaltedError as err:
            return self.ended(err.ending)
        except EnvelopeError as err:
            return self.ended(Ending(SegmentCode.OUT_OF_ENVELOPE, str(err)))
        except DriverTimeoutError as err:
            return self.ended(Ending(SegmentCode.DRIVER_TIMEOUT, str(err)))
        except RobotUnavailableError as err:
            return self.ended(Ending(SegmentCode.ROBOT_LOST, str(err)))
        except TimelyError as err:
            return self.ended(Ending(SegmentCode.SKILL_FAILED, str(err)))
        except Exception as err:
            _logger.exception('driver')
            return self.ended(Ending(SegmentCode.SKILL_FAILED, f'fault in the driver: {err!r}'))
        return self.ended(SUCCESS, value)

    async def _walk(self, driver: Driver, limits: ExecutorLimits) -> str | None:
        value: CallValue = None
        walk = steps(self.segment.statements, self._skill_set, self.scene)
        step = next(walk, None)
        while step is not None:
            value = await self._make(step, driver, limits)
            try:
                step = walk.send(value)
            except StopIteration:
                step = None
        if not self.segment.awaits_value:
            return None
        if value is None:
            raise SkillFailedError(f'{self.call} returned nothing: expected a value')
        return value if isinstance(value, str) else 'true' if value else 'false'

    async def _make(self, step: Step, driver: Driver, limits: ExecutorLimits) -> CallValue:
        if self._halt is not None:
            raise _HaltedError(self._halt)
        if self._fence is not None:
            self._fence.check(step.call, self.scene)
        started_s = self._clock.now()
        if self._started_s is None:
            self._started_s = started_s
        text = step.call.text
        self._calls.append(text)
        limit_s = limits.call_s(step.expected_s)
        call = asyncio.get_running_loop().create_task(driver.execute(step.call, self.scene))
        call.add_done_callback(_look_at)
        try:
            while not call.done():
                left_s = started_s + limit_s - self._clock.now()
                if left_s <= _TIME_STEP_S:
                    raise DriverTimeoutError(
                        f'{text} did not end: expected {step.expected_s:.1f} s, '
                        f'at most {limit_s:.1f} s'
                    )
                # An EstimatingDriver has it; asking by isinstance costs more than all else here.
                told_s: float | None = getattr(driver, 'remaining_s', None)
                next_report_s = self._report(step, started_s, told_s, limits.progress_period_s)
                halt = await self._wait(call, min(left_s, next_report_s))
                if halt is not None and not call.done():
                    raise _HaltedError(halt)
            value = call.result()
            if self._fence is not None:
                self._fence.done()
            return value
        finally:
            self._durations_s.append(self._clock.now() - started_s)
            if not call.done():
                call.cancel()
                await asyncio.wait({call}, timeout=limits.safe_limit_s)
            if not call.done():
                text = 'the driver does not end a call within %g s of a cancel'
                _logger.error(text, limits.safe_limit_s)

    async def _wait(self, call: asyncio.Future[CallValue], limit_s: float) -> Ending | None:
        """Wait for the call's end, a halt or the limit; return how to halt, None for not."""
        if self._halt is not None:
            return self._halt
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        call.add_done_callback(self._wake)
        timer = loop.call_later(limit_s, self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            call.remove_done_callback(self._wake)
            self._waiter = None
        return self._halt

    def _wake(self, _: object = None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _report(
        self, step: Step, call_started_s: float, told_s: float | None, period_s: float | None
    ) -> float:
        """Report progress if it is due; return after what time it is due again (s)."""
        now_s = self._clock.now()
        in_call_s = now_s - call_started_s
        if told_s is None:
            told_s = max(0.0, step.expected_s - in_call_s)
        self._remaining_s = told_s + step.after_s
        self._remaining_as_of_s = now_s
        is_new = in_call_s == 0 or self._reported_s < call_started_s
        due_s = MIN_PROGRESS_PERIOD_S if is_new else period_s
        if due_s is None:
            return float('inf')
        since_s = now_s - self._reported_s
        if since_s < due_s - _TIME_STEP_S:
            return due_s - since_s
        self._reported_s = now_s
        progress = SegmentProgress(
            self.segment.index,
            self.call,
            self.elapsed_s,
            self._remaining_s,
            len(self._calls),
        )
        try:
            self._on_progress(progress)
        except Exception:
            _logger.exception('progress callback')
        return float('inf') if period_s is None else period_s


def _look_at(call: asyncio.Future[CallValue]) -> None:
    """Retrieve a call's error, so that asyncio does not report it as never retrieved."""
    if not call.cancelled():
        call.exception()
