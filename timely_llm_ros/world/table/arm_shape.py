"""The arm's body in the model: seven joints with the lengths of MoveIt's Panda, on a table."""

from __future__ import annotations

import math

import mujoco

JOINTS = tuple(f'panda_joint{number}' for number in range(1, 8))
"""Names of its joints, as the calls file ``moveit`` has them."""

LIMITS_RAD = (
    (-2.89, 2.89),
    (-1.76, 1.76),
    (-2.89, 2.89),
    (-3.07, -0.07),
    (-2.89, 2.89),
    (-0.01, 3.75),
    (-2.89, 2.89),
)
"""How far each joint turns."""

REST_RAD = (0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785)
"""Its joints at rest, the hand ahead of the base and pointing down."""

HOLD_M = 0.1
"""How far before the hand is what its fingers hold (m)."""

TABLE_M, TABLE_HALF_M = 0.7, 0.75
"""Height of the table, and half its width (m). The arm stands in its middle."""

_QUARTER = math.sqrt(0.5)
_BACK, _AHEAD = (_QUARTER, -_QUARTER, 0.0, 0.0), (_QUARTER, _QUARTER, 0.0, 0.0)

# Of each link: where its joint is in the link before (m), how it is turned there, and how heavy the
# link is (kg), after the arm's parameters by Denavit and Hartenberg.
_LINKS = (
    ((0.0, 0.0, 0.333), None, 3.0),
    ((0.0, 0.0, 0.0), _BACK, 3.0),
    ((0.0, -0.316, 0.0), _AHEAD, 3.0),
    ((0.0825, 0.0, 0.0), _AHEAD, 2.5),
    ((-0.0825, 0.384, 0.0), _BACK, 2.5),
    ((0.0, 0.0, 0.0), _AHEAD, 1.5),
    ((0.088, 0.0, 0.0), _AHEAD, 0.7),
)
_FLANGE_M, _HAND_KG = 0.107, 0.7
_STIFFNESS, _DAMPING = 8000.0, 250.0
_TORQUE_NM = 200.0

FINGERS_HALF_M = (0.012, 0.03, 0.03)
"""Half the size of closed fingers (m). Open ones touch nothing here."""

PALM_HALF_M = (0.03, 0.09, 0.025)
"""Half the size of the hand without its fingers (m)."""

_BOX, _CAPSULE = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CAPSULE


def add_arm(spec: mujoco.MjSpec, robot: str, base_m: tuple[float, float, float]) -> None:
    """Add an arm; its parts are called ``robot/part``. Only its hand touches things."""
    body = spec.worldbody.add_body(name=f'{robot}/base', pos=list(base_m))
    ends_m = [place for place, _, _ in _LINKS[1:]] + [(0.0, 0.0, _FLANGE_M)]
    _add_look(body, _LINKS[0][0])
    for name, limits, link, end_m in zip(JOINTS, LIMITS_RAD, _LINKS, ends_m, strict=True):
        place, turn, mass_kg = link
        body = body.add_body(name=f'{robot}/{name}_link', pos=list(place), gravcomp=1.0)
        if turn is not None:
            body.quat = list(turn)
        _set_mass(body, mass_kg, 0.02 * mass_kg)
        _add_look(body, end_m)
        # A model's compiler takes degrees.
        span = [math.degrees(limit) for limit in limits]
        joint = body.add_joint(name=f'{robot}/{name}', axis=[0, 0, 1], range=span)
        joint.limited, joint.armature = True, 0.1
        motor = spec.add_actuator(
            name=f'{robot}/{name}', trntype=mujoco.mjtTrn.mjTRN_JOINT, target=f'{robot}/{name}'
        )
        motor.set_to_position(kp=_STIFFNESS, kv=_DAMPING)
        motor.forcelimited, motor.forcerange = True, [-_TORQUE_NM, _TORQUE_NM]
    _add_hand(body, robot)


def _add_hand(link: mujoco.MjsBody, robot: str) -> None:
    eighth_rad = math.pi / 8
    hand = link.add_body(
        name=f'{robot}/hand',
        pos=[0, 0, _FLANGE_M],
        quat=[math.cos(eighth_rad), 0, 0, -math.sin(eighth_rad)],
        gravcomp=1.0,
    )
    _set_mass(hand, _HAND_KG, 0.002)
    hand.add_geom(
        name=f'{robot}/palm', type=_BOX, size=list(PALM_HALF_M), pos=[0, 0, PALM_HALF_M[2]],
        contype=0, conaffinity=1,
    )  # fmt: skip
    hand.add_geom(
        name=f'{robot}/fingers', type=_BOX, size=list(FINGERS_HALF_M),
        pos=[0, 0, HOLD_M - FINGERS_HALF_M[2] - 0.005], contype=0, conaffinity=1,
    )  # fmt: skip


def _add_look(link: mujoco.MjsBody, end_m: tuple[float, float, float]) -> None:
    """Add what is seen of a link, from its joint to the next one."""
    if any(end_m):
        link.add_geom(
            type=_CAPSULE, fromto=[0, 0, 0, *end_m], size=[0.05, 0, 0], contype=0, conaffinity=0
        )


def _set_mass(body: mujoco.MjsBody, mass_kg: float, inertia_kg_m2: float) -> None:
    body.mass, body.inertia = mass_kg, [inertia_kg_m2] * 3
    body.explicitinertial = True
