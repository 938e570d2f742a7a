"""The drone's body in the model: a frame of a Tello's size and weight with four rotors."""

from __future__ import annotations

import mujoco

DRONE_KG = 0.08
"""Weight of a Tello with its battery (kg)."""

HALF_M = (0.09, 0.09, 0.02)
"""Half the size of its frame with the propellers' guards (m)."""

ARM_M = 0.06
"""How far ahead and aside of the middle each rotor is (m)."""

MOST_THRUST_N = 0.5
"""Of one rotor: together they lift two and a half times the weight."""

DRAG_TORQUE_M = 0.006
"""Torque about the upright that a rotor makes, by its thrust (Nm/N)."""

ROTORS = ((1, -1, -1), (1, 1, 1), (-1, 1, -1), (-1, -1, 1))
"""Of each rotor: ahead or behind, left or right, and which way its drag turns the drone."""


def add_drone(spec: mujoco.MjSpec, robot: str, origin: tuple[float, float]) -> None:
    """Add a drone that stands on the floor and looks along x."""
    body = spec.worldbody.add_body(name=robot, pos=[*origin, HALF_M[2] + 0.001])
    body.add_freejoint()
    body.add_geom(
        name=robot,
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=list(HALF_M),
        mass=DRONE_KG,
        contype=3,
        conaffinity=3,
    )
    for number, (ahead, aside, turn) in enumerate(ROTORS):
        name = f'{robot}/rotor_{number}'
        body.add_site(name=name, pos=[ahead * ARM_M, aside * ARM_M, 0])
        rotor = spec.add_actuator(
            name=name,
            trntype=mujoco.mjtTrn.mjTRN_SITE,
            target=name,
            gear=[0, 0, 1, 0, 0, turn * DRAG_TORQUE_M],
            ctrllimited=True,
            ctrlrange=[0, MOST_THRUST_N],
        )
        rotor.set_to_motor()
