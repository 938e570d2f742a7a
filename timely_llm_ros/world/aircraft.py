"""A drone of the world as what carries a mock Tello, which speaks the Tello's protocol."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.drivers.tello.mock import Pose
from timely_llm_ros.world.airframe_shape import HALF_M

if TYPE_CHECKING:
    from timely_llm_ros.world.world import World

STILL_M_S = 0.05
"""A Tello tells its speed in steps of a decimetre a second: below half of one it stands still."""

MOST_SPEED_M_S = 1.2
"""No aim is believed to move faster than this (m/s)."""


class WorldAircraft:
    """Steers one drone of a world.

    Args:
        world: Where it flies; its time passes as the aircraft is steered.
        robot: The drone's name.
    """

    def __init__(self, world: World, robot: str) -> None:
        self._world, self._robot = world, robot
        self._began_s: float | None = None
        """The aircraft's time at which the world began."""
        self._number = world.number_of(robot)
        self._aim, self._aimed_s = Pose(), -math.inf

    def steer(self, now_s: float, aim: Pose, *, motors: bool) -> None:
        """Have it fly to a pose; the world lives on until now."""
        world, drones, number = self._world, self._world.drones, self._number
        if self._began_s is None:
            self._began_s = now_s - world.now_s
        step_s = now_s - self._aimed_s
        speed = np.zeros(3)
        if step_s > 0:
            if math.isfinite(step_s):
                speed = (np.array(aim[:3]) - np.array(self._aim[:3])) / step_s
            self._aim, self._aimed_s = aim, now_s
            drones.speeds_m_s[number] = np.clip(speed, -MOST_SPEED_M_S, MOST_SPEED_M_S)
        x_m, y_m, _ = world.room.origins[self._robot]
        drones.aims_m[number] = (x_m + aim.x_m, y_m + aim.y_m, aim.z_m + HALF_M[2])
        drones.yaws_rad[number] = -math.radians(aim.yaw_deg)
        drones.motors[number] = motors
        world.advance(now_s - self._began_s)

    @property
    def pose(self) -> Pose:
        """Where it is: z above the floor, yaw clockwise and never wrapped far from its aim."""
        x_m, y_m, z_m, heading_rad = self._world.pose_of(self._robot)
        off_deg = math.remainder(-math.degrees(heading_rad) - self._aim.yaw_deg, 360.0)
        return Pose(x_m, y_m, max(0.0, z_m - HALF_M[2]), self._aim.yaw_deg + off_deg)

    @property
    def velocity_m_s(self) -> tuple[float, float, float]:
        """How fast it is: forward, left and up (m/s); what is too slow to be told is 0."""
        heading_rad = self._world.pose_of(self._robot)[3]
        x, y, z = self._world.drones.velocities_m_s[self._number].tolist()
        ahead, aside = math.cos(heading_rad), math.sin(heading_rad)
        parts = (x * ahead + y * aside, -x * aside + y * ahead, z)
        forward, left, up = (part if abs(part) >= STILL_M_S else 0.0 for part in parts)
        return forward, left, up

    @property
    def is_wreck(self) -> bool:
        """Whether it has turned over."""
        return self._world.is_wreck(self._robot)
