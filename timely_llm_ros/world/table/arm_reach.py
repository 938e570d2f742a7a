"""Which joints bring an arm's hand to a place, pointing down: inverse kinematics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from timely_llm_ros.world.table.arm_shape import JOINTS, LIMITS_RAD, REST_RAD, add_arm

if TYPE_CHECKING:
    from collections.abc import Sequence

NEAR_M, UPRIGHT = 0.001, 0.01
"""How exact a solution is: in place (m), and by the sine of the hand's tilt."""

_ROUNDS, _DAMPING, _MOST_TURN_RAD = 100, 0.03, 0.3
_TO_REST = 0.05


class ArmReach:
    """Solves for one kind of arm, by damped least squares (Wampler 1986).

    Each solution begins at rest, turned towards the place: equal places have equal solutions, and
    neighbours have similar ones.
    """

    def __init__(self) -> None:
        spec = mujoco.MjSpec()
        add_arm(spec, 'arm', (0.0, 0.0, 0.0))
        self._model = spec.compile()
        self._data = mujoco.MjData(self._model)
        self._hand = self._model.body('arm/hand').id
        self._low, self._high = np.array(LIMITS_RAD).T

    def solve(self, place_m: Sequence[float]) -> list[float] | None:
        """Return the joints (rad) that have the hand at a place from the base (m); None if none."""
        model, data = self._model, self._data
        joints = np.array(REST_RAD)
        joints[0] = np.clip(math.atan2(place_m[1], place_m[0]), self._low[0], self._high[0])
        rest = joints.copy()
        jacobian = np.zeros((6, len(JOINTS)))
        for _ in range(_ROUNDS):
            data.qpos[:] = joints
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            off_m = np.array(place_m) - data.xpos[self._hand]
            # Down is what the hand's third axis should be.
            tilt = np.cross(data.xmat[self._hand].reshape(3, 3)[:, 2], (0.0, 0.0, -1.0))
            if np.linalg.norm(off_m) < NEAR_M and np.linalg.norm(tilt) < UPRIGHT:
                return [float(angle) for angle in joints]
            mujoco.mj_jacBody(model, data, jacobian[:3], jacobian[3:], self._hand)
            joints = joints + self._turn(jacobian, np.concatenate((off_m, tilt)), rest - joints)
            joints = np.clip(joints, self._low, self._high)
        return None

    @staticmethod
    def _turn(jacobian: Any, wanted: Any, to_rest: Any) -> Any:
        # How the hand turns about the upright is free.
        rows = jacobian[:5]
        damped = rows.T @ np.linalg.inv(rows @ rows.T + _DAMPING**2 * np.eye(5))
        turn = damped @ wanted[:5]
        turn += (np.eye(len(to_rest)) - damped @ rows) @ (_TO_REST * to_rest)
        most = np.abs(turn).max()
        return turn * min(1.0, _MOST_TURN_RAD / max(most, 1e-9))
