"""A robot link inside one process, for simulation and tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.errors import RobotUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.execution.executor import SegmentExecutor
    from timely_llm_ros.execution.robot_link import (
        SegmentOutcome,
        SegmentProgress,
        TimedSegment,
    )


class LocalRobotLink:
    """Hands segments to a started executor of the same process.

    They reach it after ``latency_s``. Its answers come back without delay, so that all times are
    those that the robot itself sees.
    """

    def __init__(self, executor: SegmentExecutor, clock: Clock, *, latency_s: float = 0.0) -> None:
        self.executor = executor
        self._clock, self._latency_s = clock, latency_s

    @property
    def available(self) -> bool:
        """Whether the executor's driver has contact."""
        return self.executor.connected

    @property
    def halted(self) -> bool:
        """Never: nobody else has the executor."""
        return False

    @property
    def inactive(self) -> bool:
        """Never: it is no node."""
        return False

    async def execute(
        self, timed: TimedSegment, on_progress: Callable[[SegmentProgress], None]
    ) -> SegmentOutcome:
        """Run one segment."""
        if not self.available:
            raise RobotUnavailableError('robot: expected its driver to have contact')
        if self._latency_s > 0:
            await self._clock.sleep(self._latency_s)
        return await self.executor.execute(timed.plan_id, timed.segment, timed.scene, on_progress)

    async def stop(self) -> None:
        """Bring the robot to its safe action."""
        if not await self.executor.stop():
            raise RobotUnavailableError('robot: expected it to take its safe action')
