"""How a mock arm moves: trapezoidal speed along a path, and the kinematics of a simple arm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOULDER_MM = 300.0
"""Height of the mock's shoulder above its base (mm)."""

UPPER_MM, LOWER_MM = 450.0, 350.0
"""Lengths of its two links (mm); together the reach of an Indy7."""

JOINT_LIMIT_DEG = 175.0
"""How far each joint turns either way (deg); an Indy7's."""

Numbers = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """Speed up, cruise, slow down along a path.

    Attributes:
        length: Of the path, in any unit.
        speed: Greatest speed, units per second, above 0.
        acceleration: Units per second squared, above 0.
    """

    length: float
    speed: float
    acceleration: float

    @property
    def peak(self) -> float:
        """Greatest speed that is reached: a short path has no time for more."""
        return min(self.speed, math.sqrt(self.length * self.acceleration))

    @property
    def duration_s(self) -> float:
        """Time (s) that the path takes."""
        if self.length <= 0:
            return 0.0
        return self.length / self.peak + self.peak / self.acceleration

    def travelled(self, elapsed_s: float) -> float:
        """Return how much of the path is behind after a time (s)."""
        if elapsed_s >= self.duration_s:
            return self.length
        ramp_s = self.peak / self.acceleration
        if elapsed_s <= ramp_s:
            return 0.5 * self.acceleration * elapsed_s**2
        left_s = self.duration_s - elapsed_s
        if left_s < ramp_s:
            return self.length - 0.5 * self.acceleration * left_s**2
        return self.peak * (elapsed_s - 0.5 * ramp_s)

    def speed_at(self, elapsed_s: float) -> float:
        """Return the speed after a time (s)."""
        left_s = self.duration_s - elapsed_s
        return max(0.0, min(self.peak, self.acceleration * min(elapsed_s, left_s)))


def forward(joints_deg: Sequence[float]) -> Numbers:
    """Return the pose (mm, mm, mm, deg, deg, deg) of six joint angles (deg).

    The wrist is a simplification: each of its joints turns one of the pose's angles.
    """
    base, shoulder, elbow = (math.radians(value) for value in joints_deg[:3])
    reach_mm = UPPER_MM * math.sin(shoulder) + LOWER_MM * math.sin(shoulder + elbow)
    height_mm = UPPER_MM * math.cos(shoulder) + LOWER_MM * math.cos(shoulder + elbow)
    return (
        reach_mm * math.cos(base),
        reach_mm * math.sin(base),
        SHOULDER_MM + height_mm,
        _wrapped(joints_deg[3]),
        _wrapped(180.0 + joints_deg[4]),
        _wrapped(joints_deg[5]),
    )


def inverse(pose: Sequence[float]) -> Numbers | None:
    """Return the joint angles (deg) of a pose (mm, deg), elbow up; None where there are none."""
    x_mm, y_mm, z_mm = pose[:3]
    reach_mm, height_mm = math.hypot(x_mm, y_mm), z_mm - SHOULDER_MM
    cosine = (reach_mm**2 + height_mm**2 - UPPER_MM**2 - LOWER_MM**2) / (2 * UPPER_MM * LOWER_MM)
    if not -1 <= cosine <= 1:
        return None
    elbow = math.acos(cosine)
    shoulder = math.atan2(reach_mm, height_mm) - math.atan2(
        LOWER_MM * math.sin(elbow), UPPER_MM + LOWER_MM * math.cos(elbow)
    )
    return (
        math.degrees(math.atan2(y_mm, x_mm)),
        math.degrees(shoulder),
        math.degrees(elbow),
        _wrapped(pose[3]),
        _wrapped(pose[4] - 180.0),
        _wrapped(pose[5]),
    )


def turn_deg(start: Sequence[float], end: Sequence[float]) -> float:
    """Return the greatest turn (deg) between the angles of two poses."""
    return max(abs(_wrapped(b - a)) for a, b in zip(start[3:], end[3:], strict=True))


def between(start: Sequence[float], end: Sequence[float], share: float) -> Numbers:
    """Return the point at a share of the way from one to the other."""
    return tuple(a + share * (b - a) for a, b in zip(start, end, strict=True))


def pose_between(start: Sequence[float], end: Sequence[float], share: float) -> Numbers:
    """Return the pose at a share of the way; its angles take the short way round."""
    angles = tuple(
        _wrapped(a + share * _wrapped(b - a)) for a, b in zip(start[3:], end[3:], strict=True)
    )
    return (*between(start[:3], end[:3], share), *angles)


def _wrapped(angle_deg: float) -> float:
    """Return an angle (deg) in (-180, 180]."""
    return 180.0 - (180.0 - angle_deg) % 360.0
