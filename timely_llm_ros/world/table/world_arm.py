"""Moves the arm of a table: its joints along a way, and its gripper, which holds by a weld.

Fingers that close on a thing hold it fast where it is in the hand: contact forces between fingers
and thing are not simulated. A thing that is not between the fingers is not held.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from timely_llm_ros.world.table.arm_shape import HOLD_M, JOINTS, REST_RAD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from timely_llm_ros.world.shapes import Thing

MOST_RAD_S, MOST_RAD_S2 = 13.0, 50.0
"""Greatest speed and acceleration of a joint: five times a Panda's, because the calls file for
MoveIt asks for a fifth of them, as is wise with a real arm."""

GRASP_M = 0.03
"""A thing is between the fingers if its middle is no farther from theirs than this (m)."""

ARRIVED_RAD, ARRIVE_S = 0.02, 1.0
"""How near each joint is to its goal at the end, and how late it may be (s)."""

_ANCHOR, _TORQUE_SCALE = (0.0, 0.0, 0.0), 1.0


def add_grips(spec: mujoco.MjSpec, robot: str, things: Sequence[str]) -> None:
    """Add, not in force yet, what fixes each thing to the hand."""
    for name in things:
        grip = spec.add_equality(
            name=f'{name}/grip', type=mujoco.mjtEq.mjEQ_WELD, objtype=mujoco.mjtObj.mjOBJ_BODY,
            name1=f'{robot}/hand', name2=name,
        )  # fmt: skip
        grip.active = False


class WorldArm:
    """One arm.

    Args:
        model: The room.
        data: Its state.
        robot: The arm's name.
        base_m: Where its base is (m, in the room).
        things: What is on its table, by name.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        robot: str,
        base_m: tuple[float, float, float],
        things: Mapping[str, Thing],
    ) -> None:
        self._model, self._data = model, data
        self.base_m = np.array(base_m)
        joints = [model.joint(f'{robot}/{name}').id for name in JOINTS]
        self._places = model.jnt_qposadr[joints]
        self._speeds = model.jnt_dofadr[joints]
        self._motors = [model.actuator(f'{robot}/{name}').id for name in JOINTS]
        self.hand = model.body(f'{robot}/hand').id
        self._links = [model.body(f'{robot}/{name}_link').id for name in JOINTS]
        self._fingers = model.geom(f'{robot}/fingers').id
        # What an arm can lift has a weight.
        self._grips = {
            name: model.equality(f'{robot}/{name}/grip').id
            for name, thing in things.items()
            if thing.shape.mass_kg
        }
        self._things = things
        self.held = ''
        """Name of what it holds; empty for nothing."""
        self.is_open = True
        self.rest_rad = list(REST_RAD)
        """Its joints at rest."""
        self._start, self._goal = np.array(REST_RAD), np.array(REST_RAD)
        self._began_s, self._lasts_s = 0.0, 0.0
        # A geometry that is compiled without any is never looked at, whatever is set later.
        model.geom_conaffinity[self._fingers] = 0
        data.qpos[self._places] = data.ctrl[self._motors] = REST_RAD

    @property
    def joints_rad(self) -> Any:
        """Where each joint is."""
        return self._data.qpos[self._places]

    @property
    def speeds_rad_s(self) -> Any:
        """How fast each joint turns."""
        return self._data.qvel[self._speeds]

    @property
    def hold_m(self) -> Any:
        """The place between its fingers (m, from its base)."""
        axis = self._data.xmat[self.hand].reshape(3, 3)[:, 2]
        return self._data.xpos[self.hand] + HOLD_M * axis - self.base_m

    @property
    def chain_m(self) -> tuple[tuple[float, float, float], ...]:
        """Its base, joints, hand and the place between its fingers (m, in the room)."""
        parts = [self.base_m, *self._data.xpos[[*self._links, self.hand]]]
        return tuple(
            (float(x_m), float(y_m), float(z_m))
            for x_m, y_m, z_m in [*parts, self.base_m + self.hold_m]
        )

    def least_s(self, goal_rad: Sequence[float], speed: float = 1.0) -> float:
        """Return the least time (s) of a motion from rest to rest at a share of full speed."""
        way = float(np.abs(np.array(goal_rad) - self._goal).max())
        fastest_s = max(1.5 * way / MOST_RAD_S, math.sqrt(6.0 * way / MOST_RAD_S2))
        return max(0.05, fastest_s / speed)

    def move(self, now_s: float, goal_rad: Sequence[float], lasts_s: float) -> None:
        """Begin a motion in place of the one under way."""
        self._start, self._goal = self._wanted(now_s), np.array(goal_rad)
        self._began_s, self._lasts_s = now_s, lasts_s

    def stop(self, now_s: float) -> None:
        """Stay where it is."""
        self.move(now_s, self.joints_rad.tolist(), 0.0)

    def step(self, now_s: float) -> None:
        """Set what the motors do in the next step."""
        self._data.ctrl[self._motors] = self._wanted(now_s)

    def has_arrived(self, now_s: float) -> bool | None:
        """Return whether the latest motion ended where it should; None while it is under way."""
        if now_s < self._began_s + self._lasts_s:
            return None
        if float(np.abs(self.joints_rad - self._goal).max()) <= ARRIVED_RAD:
            return True
        return False if now_s > self._began_s + self._lasts_s + ARRIVE_S else None

    def close(self) -> str:
        """Close the gripper; return what it holds, empty for nothing."""
        if self.is_open:
            self.is_open = False
            self.held = self._between()
            if self.held:
                self._fix(self.held)
            else:
                self._model.geom_conaffinity[self._fingers] = 1
        return self.held

    def open(self) -> str:
        """Open the gripper; return what it let go, empty for nothing."""
        let_go, self.held, self.is_open = self.held, '', True
        self._model.geom_conaffinity[self._fingers] = 0
        if let_go:
            self._data.eq_active[self._grips[let_go]] = 0
        return let_go

    def _wanted(self, now_s: float) -> Any:
        share = 1.0
        if self._lasts_s > 0:
            share = min(1.0, max(0.0, (now_s - self._began_s) / self._lasts_s))
        return self._start + share**2 * (3 - 2 * share) * (self._goal - self._start)

    def _between(self) -> str:
        """Return what is between the fingers; empty for nothing."""
        off_m = {
            name: float(
                np.linalg.norm(self._data.xpos[self._things[name].body] - self.base_m - self.hold_m)
            )
            for name in self._grips
        }
        nearest = min(off_m, key=lambda name: off_m[name], default='')
        return nearest if nearest and off_m[nearest] <= GRASP_M else ''

    def _fix(self, name: str) -> None:
        """Weld a thing to the hand as it is now."""
        data, body, grip = self._data, self._things[name].body, self._grips[name]
        frame = data.xmat[self.hand].reshape(3, 3)
        back, turn = np.zeros(4), np.zeros(4)
        mujoco.mju_negQuat(back, data.xquat[self.hand])
        mujoco.mju_mulQuat(turn, back, data.xquat[body])
        place = frame.T @ (data.xpos[body] - data.xpos[self.hand])
        self._model.eq_data[grip, :11] = (*_ANCHOR, *place, *turn, _TORQUE_SCALE)
        data.eq_active[grip] = 1
