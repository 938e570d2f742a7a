"""What a robot does when its planner dies: it misses the heartbeat and takes its safe action.

Silence decides, since discovery forgets a killed process only after 20 s. A robot without work of
the planner has nothing to stop, so nobody asks then.
"""

from __future__ import annotations

import time


class PlannerWatch:
    """Knows how long the planner has been silent; after ``timeout_s`` it is lost, at 0 never."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._heard_s = float('-inf')

    def heard(self) -> None:
        """Note a sign of life: a heartbeat, or a plan that begins."""
        self._heard_s = time.monotonic()

    def loss(self) -> str:
        """Return why the robot's plan must be stopped; '' while the planner is there.

        A loss is told once; the planner then has its full time again.
        """
        silence_s = time.monotonic() - self._heard_s
        if not self._timeout_s or silence_s <= self._timeout_s:
            return ''
        self.heard()
        return f'no sign of life of the planner for {silence_s:.1f} s'
