"""What a mock Tello flies by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.drivers.tello.mock.pose import Pose


@dataclass(slots=True)
class Maneuver:
    """What it flies by itself: from one pose to another."""

    start: Pose
    end: Pose
    starts_s: float
    """When it leaves its place."""
    way_s: float
    """How long it is on its way."""
    ends_s: float
    answer: Callable[[str], None]
    """Told the answer at the end; does nothing where nobody asked."""

    def share(self, now_s: float) -> float:
        """Return which part of its way it would have made by now; more than 1 after its end."""
        return max(0.0, (now_s - self.starts_s) / max(self.way_s, 1e-9))
