"""Metres and radians as the Tello SDK takes them: whole centimetres and degrees in its limits."""

from __future__ import annotations

import math

from timely_llm_ros.errors import SkillFailedError

MIN_MOVE_CM, MAX_MOVE_CM = 20, 500
"""Least and greatest distance of one move (cm)."""

MAX_TURN_DEG = 360
"""Greatest angle of one turn (degrees); the least is 1."""

SPEED_CM_S = (10, 100)
"""Least and greatest speed (cm/s)."""


def move_legs_cm(distance_m: float) -> tuple[int, ...]:
    """Return a move as legs (cm): one, or equal ones if the SDK takes no move that long.

    Raises:
        SkillFailedError: The move is shorter than the SDK's least one, or not finite.
    """
    if not math.isfinite(distance_m) or round(distance_m * 100) < MIN_MOVE_CM:
        raise SkillFailedError(
            f'a move of {distance_m:g} m: expected at least {MIN_MOVE_CM / 100:g} m'
        )
    return _legs(round(distance_m * 100), MAX_MOVE_CM)


def turn_legs_deg(angle_rad: float) -> tuple[int, ...]:
    """Return a turn by a positive angle as legs (degrees).

    Raises:
        SkillFailedError: The angle is less than half a degree, or not finite.
    """
    if not math.isfinite(angle_rad) or round(math.degrees(angle_rad)) < 1:
        raise SkillFailedError(f'a turn of {angle_rad:g} rad: expected at least 1 degree')
    return _legs(round(math.degrees(angle_rad)), MAX_TURN_DEG)


def speed_cm_s(speed_m_s: float) -> int:
    """Return the nearest speed (cm/s) that the SDK takes."""
    least, greatest = SPEED_CM_S
    return min(max(round(speed_m_s * 100), least), greatest)


def _legs(total: int, greatest: int) -> tuple[int, ...]:
    """Split a whole number into the fewest parts that are not too great and alike within 1."""
    count = -(-total // greatest)
    each, over = divmod(total, count)
    return (*[each + 1] * over, *[each] * (count - over))
