"""Where a mock Tello is, and what it does there."""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple


class Phase(Enum):
    """What the aircraft does."""

    GROUND = 'ground'
    """It stands, motors off."""
    TAKEOFF = 'takeoff'
    """It climbs by itself."""
    HOVER = 'hover'
    """It stays in place."""
    MOVE = 'move'
    """It flies a move by itself: along a line, or turning."""
    RC = 'rc'
    """It flies with velocities that it was told."""
    LANDING = 'landing'
    """It goes down by itself."""
    WRECK = 'wreck'
    """Its motors were cut in the air, and it fell."""

    @property
    def is_safe(self) -> bool:
        """Whether it stays where it is, or lands."""
        return self not in (Phase.TAKEOFF, Phase.MOVE, Phase.RC)


class Pose(NamedTuple):
    """A place and a heading: x forward, y left, z up of the start (m), clockwise yaw (degrees)."""

    x_m: float = 0.0
    y_m: float = 0.0
    z_m: float = 0.0
    yaw_deg: float = 0.0

    def towards(self, other: Pose, share: float) -> Pose:
        """Return the pose that far (0 to 1) on the way to another."""
        return Pose(*(a + share * (b - a) for a, b in zip(self, other, strict=True)))

    def moved(self, forward_m: float, left_m: float, up_m: float, turn_deg: float = 0.0) -> Pose:
        """Return the pose after a move relative to the heading."""
        angle_rad = -math.radians(self.yaw_deg)
        return Pose(
            self.x_m + forward_m * math.cos(angle_rad) - left_m * math.sin(angle_rad),
            self.y_m + forward_m * math.sin(angle_rad) + left_m * math.cos(angle_rad),
            max(0.0, self.z_m + up_m),
            self.yaw_deg + turn_deg,
        )
