"""How long somebody else has been silent, as seen by a process that may itself be held up."""

from __future__ import annotations

import math
import time


class Silence:
    """Counts how long another process has been silent while this one looked.

    A process that was stopped or starved itself finds old messages and blames whoever sent them.
    So a look counts at most ``most_s`` since the one before. Look more often than that.

    Args:
        most_s: How much silence one look may count (s).
    """

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._counted_s, self._looked_s = math.inf, time.monotonic()

    def heard(self) -> None:
        """Note a sign of life. Before the first one the silence is infinite."""
        self._counted_s, self._looked_s = 0.0, time.monotonic()

    def look(self) -> float:
        """Return how long the silence has lasted (s)."""
        now_s = time.monotonic()
        self._counted_s += min(now_s - self._looked_s, self._most_s)
        self._looked_s = now_s
        return self._counted_s
