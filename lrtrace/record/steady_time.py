"""The time in a trace, which goes on evenly where the wall clock is set."""

from __future__ import annotations

import logging
import time

_logger = logging.getLogger(__name__)

STEP_NS = 500_000_000
"""A change of the wall clock between two looks that counts as its being set (ns)."""


class SteadyTime:
    """Wall-clock time as of the start, plus the time that has passed since.

    Small corrections of the wall clock, as of NTP, are followed; where it is set, a trace would
    have its end before its begin.
    """

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        self._now_ns = self._shift_ns = self._earlier_ns = 0
        self.look()

    def look(self) -> None:
        """Compare the clocks; called often."""
        steady_ns = time.monotonic_ns()
        offset_ns = time.time_ns() - steady_ns
        step_ns, self._offset_ns = offset_ns - self._offset_ns, offset_ns
        if abs(step_ns) > STEP_NS:
            self._earlier_ns, self._shift_ns = self._shift_ns, self._shift_ns - step_ns
            text = 'the wall clock was set by %.1f s: the times of the trace go on evenly'
            _logger.warning(text, step_ns / 1e9)
        self._now_ns = steady_ns + offset_ns + self._shift_ns

    def of(self, wall_ns: int) -> int:
        """Return the time (ns) of something that was stamped not long before the latest look."""
        times_ns = wall_ns + self._shift_ns, wall_ns + self._earlier_ns
        # It may have been stamped before the clock was set.
        return min(times_ns, key=lambda time_ns: abs(time_ns - self._now_ns))
