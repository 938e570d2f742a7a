"""What a robot does when its planner dies: it misses the heartbeat and takes its safe action.

Silence decides, since discovery forgets a killed process only after 20 s. A robot without work of
the planner has nothing to stop, so nobody asks then.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from copy import copy
from typing import TYPE_CHECKING

from timely_llm_ros.execution import SegmentCode
from timely_llm_ros.ros import NEW_S, same_program
from timely_llm_ros.silence import Silence

if TYPE_CHECKING:
    from timely_llm_ros.execution import SegmentExecutor

_logger = logging.getLogger(__name__)

PERIOD_S = 0.025
"""How often the watch is kept (s)."""

MOST_PLANNERS = 16
"""How many planners are remembered: the last that were heard."""


class PlannerWatch:
    """Has one robot made safe when its planner is silent for ``timeout_s``, at 0 never.

    Used on the loop's thread.
    """

    def __init__(self, robot: str, executor: SegmentExecutor, timeout_s: float) -> None:
        self._robot, self._executor, self._timeout_s = robot, executor, timeout_s
        self._silence = Silence(most_s=4 * PERIOD_S)
        self._planner = b''
        self._heard: dict[bytes, Silence] = {}
        """Every planner that was heard, the last one last."""
        self._met_s = -math.inf
        """When the newest of them was first heard (s)."""
        self._stopping: asyncio.Task[bool] | None = None

    @property
    def new(self) -> bool:
        """Whether a planner has come only lately."""
        return time.monotonic() - self._met_s < NEW_S

    def heard(self, planner: bytes) -> bool:
        """Note a heartbeat; return whether it is of the planner that the robot works for.

        Whose the segments in hand are, which were sent by hand, nobody knows: any planner will do.
        """
        silence = self._heard.pop(planner, None)
        if silence is None:
            silence, self._met_s = Silence(most_s=4 * PERIOD_S), time.monotonic()
        silence.heard()
        self._heard[planner] = silence
        if len(self._heard) > MOST_PLANNERS:
            del self._heard[next(iter(self._heard))]
        if self._planner and planner != self._planner:
            return False
        self._silence.heard()
        return True

    def knows(self, planner: bytes) -> bool:
        """Return whether a planner that sends a segment is alive by its own heartbeat.

        Whoever sends by hand names none.
        """
        silence = self._heard.get(planner)
        alive = silence is not None and not 0 < self._timeout_s < silence.look()
        return alive or not planner

    def may_end(self, plan_id: str, publisher: bytes) -> bool:
        """Return whether the program of this publisher may say that a plan ended.

        A plan that the robot does not have, as one that ended before its first segment, is no
        matter of its: any program may.
        """
        if plan_id != self._executor.state.plan_id:
            return True
        return bool(self._planner) and same_program(publisher, self._planner)

    def begin(self, planner: bytes) -> bool:
        """Note that a planner (its GID) sends a segment; return whether the robot may work for it.

        It may not for one whose heartbeat is not heard, nor while it works for another one that is
        alive.
        """
        if not self.knows(planner):
            return False
        alive = bool(self._planner) and self._silence.look() <= self._timeout_s
        if planner != self._planner and alive and self._busy:
            return False
        if planner != self._planner or not self._busy:
            self._planner = planner
            if planner:
                # A segment says nothing of its planner, which may have died since it sent it.
                self._silence = copy(self._heard[planner])
            else:
                self._silence.heard()
        return True

    @property
    def _busy(self) -> bool:
        state = self._executor.state
        return bool(state.queued) or state.phase in ('executing', 'waiting')

    def check(self) -> None:
        """Make the robot safe if the planner that it works for is lost; called every period."""
        for silence in self._heard.values():
            silence.look()
        silence_s = self._silence.look()
        if not self._timeout_s or silence_s <= self._timeout_s or not self._busy:
            return
        # Told once: the planner then has its full time again.
        self._silence.heard()
        loss = f'no sign of life of the planner for {silence_s:.2f} s'
        _logger.error('robot %s: %s: making it safe', self._robot, loss)
        stop = self._executor.stop(SegmentCode.PLANNER_LOST, loss)
        self._stopping = asyncio.create_task(stop)
