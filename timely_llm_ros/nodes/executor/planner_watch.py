"""What a robot does when its planner dies: it misses the heartbeat and takes its safe action.

Silence decides, since discovery forgets a killed process only after 20 s. A robot without work of
the planner has nothing to stop, so nobody asks then.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from timely_llm_ros.execution import SegmentCode
from timely_llm_ros.silence import Silence

if TYPE_CHECKING:
    from timely_llm_ros.execution import SegmentExecutor

_logger = logging.getLogger(__name__)

PERIOD_S = 0.025
"""How often the watch is kept (s)."""


class PlannerWatch:
    """Has one robot made safe when its planner is silent for ``timeout_s``, at 0 never.

    Used on the loop's thread.
    """

    def __init__(self, robot: str, executor: SegmentExecutor, timeout_s: float) -> None:
        self._robot, self._executor, self._timeout_s = robot, executor, timeout_s
        self._silence = Silence(most_s=4 * PERIOD_S)
        self._stopping: asyncio.Task[bool] | None = None

    def heard(self) -> None:
        """Note a sign of life: a heartbeat, or a plan that begins."""
        self._silence.heard()

    def check(self) -> None:
        """Make the robot safe if the planner that it works for is lost; called every period."""
        silence_s = self._silence.look()
        state = self._executor.state
        busy = state.queued or state.phase in ('executing', 'waiting')
        if not busy or not self._timeout_s or silence_s <= self._timeout_s:
            return
        # Told once: the planner then has its full time again.
        self.heard()
        loss = f'no sign of life of the planner for {silence_s:.2f} s'
        _logger.error('robot %s: %s: making it safe', self._robot, loss)
        stop = self._executor.stop(SegmentCode.PLANNER_LOST, loss)
        self._stopping = asyncio.create_task(stop)
