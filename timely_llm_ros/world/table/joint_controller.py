"""Does with an arm what ros2_control's joint trajectory controller is asked for.

It knows the fields of the messages and not ROS.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from timely_llm_ros.world.table.arm_shape import JOINTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.world.table.world_arm import WorldArm

FINGER = 'panda_finger_joint1'
"""The joint of the fingers: how far each is from the middle (m)."""

OPEN_M = 0.04
"""Where they are at first."""


class JointController:
    """Moves one arm and its fingers along trajectories.

    Args:
        arm: The arm.
        now_s: Tells the time of its world (s).
        grip: Has its fingers that far from the middle (m).
    """

    def __init__(
        self, arm: WorldArm, now_s: Callable[[], float], grip: Callable[[float], object]
    ) -> None:
        self._arm, self._now_s, self._grip = arm, now_s, grip
        self._finger_m = OPEN_M

    def follow(self, trajectory: Any) -> bool:
        """Begin a ``JointTrajectory``, of which only the last point counts.

        Returns:
            Whether it was taken: as by the real controller, one that does not name every joint
            once, or holds a number that is none, is dropped without a word.
        """
        names = list(trajectory.joint_names)
        if not trajectory.points or sorted(names) != sorted((*JOINTS, FINGER)):
            return False
        point = trajectory.points[-1]
        lasts_s = point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec
        if len(point.positions) != len(names) or lasts_s <= 0:
            return False
        if not all(map(math.isfinite, point.positions)):
            return False
        goal = dict(zip(names, point.positions, strict=True))
        self._arm.move(self._now_s(), [goal[name] for name in JOINTS], lasts_s)
        if goal[FINGER] != self._finger_m:
            self._finger_m = goal[FINGER]
            self._grip(self._finger_m)
        return True

    def joints(self) -> tuple[list[str], list[float], list[float]]:
        """Return names, positions (rad, m) and speeds (rad/s, m/s) of the joints."""
        arm = self._arm
        return (
            [*JOINTS, FINGER],
            [*arm.joints_rad.tolist(), self._finger_m],
            [*arm.speeds_rad_s.tolist(), 0.0],
        )
