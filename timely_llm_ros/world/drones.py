"""Flies all drones of a room: from where each is told to be to what its four rotors do.

The controller is that of Lee, Leok and McClamroch (CDC 2010, equations 12 to 16): the wanted
acceleration gives the direction of thrust, and the frame is turned there. All drones are reckoned
at once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from timely_llm_ros.world.airframe_shape import (
    ARM_M,
    DRAG_TORQUE_M,
    DRONE_KG,
    HALF_M,
    MOST_THRUST_N,
    ROTORS,
)
from timely_llm_ros.world.room import STEP_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    import mujoco

    from timely_llm_ros.world.options import WorldOptions

GRAVITY_M_S2 = 9.81

KP, KD = 7.0, 5.0
"""Gains of position (1/s^2) and velocity (1/s)."""

AHEAD = 0.45
"""Share of the speed of its aim that a drone is told beforehand: with more of it, it flies past the
end of a move; a Tello does not, and its driver takes sinking back for a landing."""

KI = (1.5, 1.5, 0.0)
"""Gains of the error summed up (1/s^3): wind pushes sideways only."""

TURN_KP, TURN_KD = 250.0, 30.0
"""Gains of the frame's angle (1/s^2) and of its rate (1/s)."""

YAW_SHARE = 0.2
"""Rotors turn a drone about the upright more weakly than about the others."""

MOST_ACCELERATION_M_S2 = 4.0
"""Sideways: a tilt of 22 degrees."""

MOST_SUM_MS = 0.2
"""Of the summed error (m s)."""

DRAG_N_S2_M2 = 0.012
"""Force of the wind by the square of its speed."""

GUST_S = 2.0
"""How long a gust lasts (s)."""

WRECK_TILT = math.cos(math.radians(75))
"""A drone that tilts further than that does not fly any more."""

_DIAMETERS = 2.0 * np.array(HALF_M)
INERTIA = DRONE_KG / 12.0 * (np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]]) @ np.square(_DIAMETERS))
"""Of the frame about its axes (kg m^2)."""

# Thrust and torques of the rotors, and the other way round.
_TORQUES = np.array(
    [
        [1.0] * 4,
        [aside * ARM_M for _, aside, _ in ROTORS],
        [-ahead * ARM_M for ahead, _, _ in ROTORS],
        [turn * DRAG_TORQUE_M for _, _, turn in ROTORS],
    ]
)
_MIXER = np.linalg.inv(_TORQUES)


class Drones:
    """The drones of one room.

    Attributes:
        aims_m: Where each is to be (m, in the room).
        speeds_m_s: How fast it is to go there (m/s, in the room).
        yaws_rad: Its wanted heading, counter-clockwise.
        motors: Whether its motors turn.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        bodies: Sequence[int],
        options: WorldOptions,
    ) -> None:
        count = len(bodies)
        self._data = data
        self._bodies = np.array(bodies, dtype=int)
        joints = model.body_jntadr[self._bodies]
        self._speeds = model.jnt_dofadr[joints][:, None] + np.arange(6)
        self.aims_m = data.xpos[self._bodies].copy()
        self.speeds_m_s = np.zeros((count, 3))
        self.yaws_rad = np.zeros(count)
        self.motors = np.zeros(count, dtype=bool)
        self._sums = np.zeros((count, 3))
        self._rng = np.random.default_rng([options.seed, 1])
        angle_rad = self._rng.uniform(0, math.tau)
        self._mean_wind = options.wind_m_s * np.array([math.cos(angle_rad), math.sin(angle_rad), 0])
        self._gusts = np.zeros((count, 3))
        self._gusts_m_s = options.gusts_m_s

    @property
    def positions_m(self) -> Any:
        """Where each is (m, in the room)."""
        return self._data.xpos[self._bodies]

    @property
    def frames(self) -> Any:
        """The rotation of each: columns are ahead, left and up of it."""
        return self._data.xmat[self._bodies].reshape(-1, 3, 3)

    @property
    def velocities_m_s(self) -> Any:
        """How fast each is (m/s, in the room)."""
        return self._data.qvel[self._speeds[:, :3]]

    def control(self) -> None:
        """Set what the rotors and the wind do in the next step."""
        frames, velocities = self.frames, self.velocities_m_s
        rates = self._data.qvel[self._speeds[:, 3:]]
        flying = self.motors & (frames[:, 2, 2] > WRECK_TILT)
        errors = self.aims_m - self.positions_m
        self._sums += STEP_S * errors
        np.clip(self._sums, -MOST_SUM_MS, MOST_SUM_MS, out=self._sums)
        self._sums[~flying] = 0.0
        wanted = KP * errors + KD * (AHEAD * self.speeds_m_s - velocities) + KI * self._sums
        sideways = np.linalg.norm(wanted[:, :2], axis=1, keepdims=True)
        wanted[:, :2] *= np.minimum(1.0, MOST_ACCELERATION_M_S2 / np.maximum(sideways, 1e-9))
        np.clip(wanted[:, 2], -3.0, 4.0, out=wanted[:, 2])
        wanted[:, 2] += GRAVITY_M_S2
        thrusts = DRONE_KG * np.einsum('ni,ni->n', wanted, frames[:, :, 2])
        torques = self._torques(frames, rates, wanted)
        rotors = np.column_stack((thrusts, torques)) @ _MIXER.T
        rotors[~flying] = 0.0
        self._data.ctrl[: rotors.size] = np.clip(rotors, 0.0, MOST_THRUST_N).ravel()
        self._blow(velocities, flying)

    def _torques(self, frames: Any, rates: Any, wanted: Any) -> Any:
        up = wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
        ahead = np.column_stack(
            (np.cos(self.yaws_rad), np.sin(self.yaws_rad), np.zeros(len(self.yaws_rad)))
        )
        left = np.cross(up, ahead)
        left /= np.linalg.norm(left, axis=1, keepdims=True)
        goals = np.stack((np.cross(left, up), left, up), axis=2)
        off = np.einsum('nji,njk->nik', goals, frames)
        errors = 0.5 * np.column_stack(
            (off[:, 2, 1] - off[:, 1, 2], off[:, 0, 2] - off[:, 2, 0], off[:, 1, 0] - off[:, 0, 1])
        )
        turns = -TURN_KP * errors - TURN_KD * rates
        turns[:, 2] *= YAW_SHARE
        return turns * INERTIA

    def _blow(self, velocities: Any, flying: Any) -> None:
        """Have the wind push: it changes by an Ornstein-Uhlenbeck process."""
        kick = self._gusts_m_s * math.sqrt(2 * STEP_S / GUST_S)
        self._gusts += -self._gusts * (STEP_S / GUST_S)
        self._gusts += kick * self._rng.standard_normal(self._gusts.shape)
        wind = self._mean_wind + self._gusts - velocities
        force = DRAG_N_S2_M2 * wind * np.linalg.norm(wind, axis=1, keepdims=True)
        # One that stands is in the lee of the floor.
        self._data.xfrc_applied[self._bodies, :3] = np.where(flying[:, None], force, 0.0)
