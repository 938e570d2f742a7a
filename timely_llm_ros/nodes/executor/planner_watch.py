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
        self._planner = b''
        self._stopping: asyncio.Task[bool] | None = None

    def heard(self, planner: bytes) -> bool:
        """Note a heartbeat; return whether it is of the planner that the robot works for.

        Whose the segments in hand are, which were sent by hand, nobody knows: any planner will do.
        """
        if self._planner and planner != self._planner:
            return False
        self._silence.heard()
        return True

    def begin(self, planner: bytes) -> bool:
        """Note that a planner (its GID) sends a segment; return whether the robot may work for it.

        It may not while it works for another one that is alive.
        """
        alive = bool(self._planner) and self._silence.look() <= self._timeout_s
        if planner != self._planner and alive and self._busy:
            return False
        if planner != self._planner or not self._busy:
            self._planner = planner
            self._silence.heard()
        return True

    @property
    def _busy(self) -> bool:
        state = self._executor.state
        return bool(state.queued) or state.phase in ('executing', 'waiting')

    def check(self) -> None:
        """Make the robot safe if the planner that it works for is lost; called every period."""
        silence_s = self._silence.look()
        if not self._timeout_s or silence_s <= self._timeout_s or not self._busy:
            return
        # Told once: the planner then has its full time again.
        self._silence.heard()
        loss = f'no sign of life of the planner for {silence_s:.2f} s'
        _logger.error('robot %s: %s: making it safe', self._robot, loss)
        stop = self._executor.stop(SegmentCode.PLANNER_LOST, loss)
        self._stopping = asyncio.create_task(stop)
