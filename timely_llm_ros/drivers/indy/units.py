"""What an Indy is told, in its own units and within its limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError, SkillFailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

VELOCITY_RATIO = (1, 100)
"""Least and greatest velocity ratio (%) that the SDK takes."""

ACCELERATION_RATIO = (1, 900)
"""Least and greatest acceleration ratio (%)."""


def millimetres(value_m: float) -> float:
    """Return a length (m) in mm."""
    return value_m * 1000.0


def ratio(share: float, limits: tuple[int, int], what: str) -> int:
    """Return a share as a whole percentage within limits.

    Raises:
        ConfigurationError: It is outside of them.
    """
    least, most = limits
    if not least / 100 <= share <= most / 100:
        raise ConfigurationError(f'{what} {share!r}: expected {least / 100:g} to {most / 100:g}')
    return round(100 * share)


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where the tool may go, in the arm's base frame.

    Attributes:
        reach_m: Greatest distance (m) from the base's vertical axis.
        floor_m: Least height (m).
        ceiling_m: Greatest height (m).
        rotation_rad: Rotation of the tool about x, y, z (rad) for all that it does.
    """

    reach_m: float
    floor_m: float
    ceiling_m: float
    rotation_rad: tuple[float, float, float]

    def pose(self, x_m: float, y_m: float, z_m: float) -> list[float]:
        """Return the pose (mm, mm, mm, deg, deg, deg) of the tool at a point.

        Raises:
            SkillFailedError: The point is outside of the workspace.
        """
        point = f'({x_m:.3f}, {y_m:.3f}, {z_m:.3f}) m'
        reach_m = math.hypot(x_m, y_m)
        # NaN is outside too.
        if not reach_m <= self.reach_m:
            raise SkillFailedError(
                f'point {point}: {reach_m:.3f} m from the base: expected at most {self.reach_m:g} m'
            )
        if not self.floor_m <= z_m <= self.ceiling_m:
            raise SkillFailedError(
                f'point {point}: expected a height from {self.floor_m:g} to {self.ceiling_m:g} m'
            )
        lengths_mm = [millimetres(value) for value in (x_m, y_m, z_m)]
        return [*lengths_mm, *(math.degrees(value) for value in self.rotation_rad)]


NO_DISTANCE_M = 1e-6
"""What no arm could tell from nothing (m)."""


def away_from_base(x_m: float, y_m: float) -> tuple[float, float]:
    """Return the unit vector from the base to a point; straight ahead for the base itself."""
    distance_m = math.hypot(x_m, y_m)
    return (x_m / distance_m, y_m / distance_m) if distance_m > NO_DISTANCE_M else (1.0, 0.0)


def distance_mm(pose: Sequence[float], other: Sequence[float]) -> float:
    """Return how far apart the points of two poses are (mm)."""
    return math.dist(pose[:3], other[:3])


def greatest_turn_deg(joints: Sequence[float], other: Sequence[float]) -> float:
    """Return how far apart two sets of joint angles are at most (deg)."""
    return max(abs(a - b) for a, b in zip(joints, other, strict=True))
