"""Time utility: what an answer is worth as a function of how late it comes (TimelyLLM, eq. 1)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from timely_llm_ros.errors import InvalidTaskError


@dataclass(frozen=True, slots=True)
class TimeUtility:
    """``min(beta, alpha * (t - ERT) + beta)`` for a waiting time ``t``.

    Attributes:
        expected_response_s: ERT, the waiting time (s) up to which utility is at its peak.
        slope_per_s: alpha <= 0, utility lost per second after that.
        peak: beta > 0, the highest utility.
        floor: An answer that is worth no more than this is not wanted: a task that cannot reach
            more is refused, or ended as soon as that is known. ``-inf`` takes it however late.

    Raises:
        InvalidTaskError: A value is not finite or out of range.
    """

    expected_response_s: float
    slope_per_s: float
    peak: float
    floor: float = -math.inf

    def __post_init__(self) -> None:
        if not (math.isfinite(self.expected_response_s) and self.expected_response_s >= 0):
            raise InvalidTaskError(
                f'expected response {self.expected_response_s!r} s: expected a finite number >= 0'
            )
        if not (math.isfinite(self.slope_per_s) and self.slope_per_s <= 0):
            raise InvalidTaskError(
                f'utility slope {self.slope_per_s!r} per s: expected a finite number <= 0'
            )
        if not (math.isfinite(self.peak) and self.peak > 0):
            raise InvalidTaskError(f'utility peak {self.peak!r}: expected a finite number > 0')
        if not self.floor < self.peak:
            raise InvalidTaskError(
                f'utility floor {self.floor!r}: expected a number below the peak, {self.peak:g}'
            )

    def first(self, waiting_s: float) -> float:
        """Return the utility of a first segment that made the robot wait ``waiting_s``."""
        return min(self.peak, self.slope_per_s * (waiting_s - self.expected_response_s) + self.peak)

    def as_dict(self) -> dict[str, float]:
        """Return its fields for JSON, which has no infinity: no floor where there is none."""
        fields = asdict(self)
        if self.floor == -math.inf:
            del fields['floor']
        return fields

    @property
    def worthless_after_s(self) -> float:
        """The waiting time (s) from which an answer is not wanted; inf for never."""
        if not self.slope_per_s or self.floor == -math.inf:
            return math.inf
        return self.expected_response_s + (self.peak - self.floor) / -self.slope_per_s


NORMAL = TimeUtility(expected_response_s=1.0, slope_per_s=-2.0, peak=1.0)
"""TimelyLLM's normal robot task (section 7.1)."""

URGENT = TimeUtility(expected_response_s=0.2, slope_per_s=-6.67, peak=2.0)
"""TimelyLLM's urgent robot task (section 7.1)."""
