"""Does with an arm what MoveIt's ``move_group`` and a gripper's controller are asked for.

It knows the fields of their messages and not ROS.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from timely_llm_ros.world.table import JOINTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.world.table import ArmReach
    from timely_llm_ros.world.world import World

SUCCESS, CONTROL_FAILED, INVALID_GOAL, NO_IK_SOLUTION = 1, -4, -10, -31
"""Of ``moveit_msgs/MoveItErrorCodes``."""

CLOSED_M = 0.02
"""Fingers that are to be no farther apart than that close (m)."""

MOST_TILT_RAD = 0.2
"""A hand that need not point straight down, within this, points down (rad)."""


class MoveGroup:
    """Plans and moves one arm.

    Args:
        world: Where it is.
        robot: Its name.
        reach: Its inverse kinematics.
    """

    def __init__(self, world: World, robot: str, reach: ArmReach) -> None:
        self._world, self._robot, self._reach = world, robot, reach
        self._arm = world.arms[robot]

    def start(self, request: Any) -> int | None:
        """Begin what a ``MotionPlanRequest`` asks for; return why not, as an error code."""
        joints = self._goal(request)
        if isinstance(joints, int):
            return joints
        factors = (request.max_velocity_scaling_factor, request.max_acceleration_scaling_factor)
        # As MoveIt has it: what is out of range asks for full speed.
        speed = min(factor if 0 < factor <= 1 else 1.0 for factor in factors)
        self._arm.move(self._world.now_s, joints, self._arm.least_s(joints, speed))
        return None

    def ended(self) -> int | None:
        """Return the code with which the motion ended; None while it is under way."""
        arrived = self._arm.has_arrived(self._world.now_s)
        if arrived is None:
            return None
        return SUCCESS if arrived else CONTROL_FAILED

    def stop(self) -> None:
        """Hold the arm where it is."""
        self._arm.stop(self._world.now_s)

    def grip(self, apart_m: float) -> bool:
        """Open or close the fingers; return whether they hold something."""
        if apart_m <= CLOSED_M:
            self._world.close(self._robot)
        else:
            self._world.open(self._robot)
        return bool(self._arm.held)

    def _goal(self, request: Any) -> Sequence[float] | int:
        """Return the joints (rad) at the end of a motion, or an error code."""
        if len(request.goal_constraints) != 1:
            return INVALID_GOAL
        (goal,) = request.goal_constraints
        if goal.joint_constraints:
            angles = {one.joint_name: one.position for one in goal.joint_constraints}
            if set(angles) != set(JOINTS) or not all(map(math.isfinite, angles.values())):
                return INVALID_GOAL
            return [angles[name] for name in JOINTS]
        poses = [
            pose
            for one in goal.position_constraints
            for pose in one.constraint_region.primitive_poses
        ]
        if len(poses) != 1 or not all(map(_points_down, goal.orientation_constraints)):
            return INVALID_GOAL
        place = poses[0].position
        if not all(map(math.isfinite, (place.x, place.y, place.z))):
            return INVALID_GOAL
        return self._reach.solve((place.x, place.y, place.z)) or NO_IK_SOLUTION


def _points_down(constraint: Any) -> bool:
    """Return whether a hand is to point down, however it is turned about the upright."""
    q = constraint.orientation
    upright: float = 1.0 - 2.0 * (q.x**2 + q.y**2)
    return upright <= -math.cos(MOST_TILT_RAD)
