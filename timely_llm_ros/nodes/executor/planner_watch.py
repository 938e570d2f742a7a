"""What a robot does when its planner dies: it misses the heartbeat and takes its safe action.

Discovery forgets a killed process only after 20 s, so silence decides. Without work of the planner
in hand a robot has nothing to stop, and nobody asks.
"""

from __future__ import annotations

import time


class PlannerWatch:
    """Knows how long the planner has been silent.

    Args:
        timeout_s: Silence (s) after which the planner counts as lost; 0 for never.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._heard_s = float('-inf')

    def heard(self) -> None:
        """Note a sign of life: a heartbeat, or a plan that begins."""
        self._heard_s = time.monotonic()

    def loss(self) -> str:
        """Return why the robot's plan must be stopped, '' while the planner is there.

        A loss is said once. The next plan gives the planner its full time again.
        """
        silence_s = time.monotonic() - self._heard_s
        if not self._timeout_s or silence_s <= self._timeout_s:
            return ''
        self.heard()
        return f'no sign of life of the planner for {silence_s:.1f} s'
