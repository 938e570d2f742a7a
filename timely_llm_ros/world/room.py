"""Builds the room: floor, furniture, things, walkers, drones and arms, as a MuJoCo model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco

from timely_llm_ros.world.airframe_shape import add_drone
from timely_llm_ros.world.colors import add_surroundings, paint
from timely_llm_ros.world.layout import bay_origin
from timely_llm_ros.world.shapes import (
    BESIDE_M,
    FURNITURE_M,
    SUPPORT_M,
    TABLE_M,
    TABLE_THICK_M,
    Thing,
    height_of,
    shape_of,
)
from timely_llm_ros.world.table import TABLE_M as ARM_TABLE_M
from timely_llm_ros.world.table import (
    add_arm,
    add_grips,
    add_table,
    add_table_thing,
    table_shape_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from timely_llm_ros.skills import SceneObject
    from timely_llm_ros.world.options import Bay

STEP_S = 0.004
"""Step of the physics (s)."""

SOLID, WALKING = 1, 2
"""What collides with what: drones with both, things with what is solid, walkers with drones."""

_LEG_M = 0.015
_BOX_M = 0.12
"""Height of the walls of what things lie in (m)."""

CYLINDER, BOX, PLANE = (
    mujoco.mjtGeom.mjGEOM_CYLINDER,
    mujoco.mjtGeom.mjGEOM_BOX,
    mujoco.mjtGeom.mjGEOM_PLANE,
)


@dataclass(frozen=True)
class Room:
    """A room with everything in it.

    Attributes:
        model: As MuJoCo simulates it.
        origins: Where each drone starts, and where each arm's base is (m), by robot.
        things: By robot and name.
        drone_bodies: Number of each drone's body, by robot.
    """

    model: mujoco.MjModel
    origins: Mapping[str, tuple[float, float, float]]
    things: Mapping[str, Mapping[str, Thing]]
    drone_bodies: Mapping[str, int]


def build_room(bays: Sequence[Bay]) -> Room:
    """Return a room with a bay for each robot."""
    spec = mujoco.MjSpec()
    spec.option.timestep = STEP_S
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    # What lies still costs nothing.
    spec.option.enableflags |= mujoco.mjtEnableBit.mjENBL_SLEEP
    tiles = add_surroundings(spec)
    spec.worldbody.add_geom(name='floor', type=PLANE, size=[0, 0, 1], material=tiles)
    corners = {bay.robot: bay_origin(place, len(bays)) for place, bay in enumerate(bays)}
    # The rotors first: drones are reckoned all at once.
    drones = [bay.robot for bay in bays if bay.body == 'drone']
    for robot in drones:
        add_drone(spec, robot, corners[robot])
    homes = {
        bay.robot: (_add_things if bay.body == 'drone' else _add_table)(
            spec, bay, corners[bay.robot]
        )
        for bay in bays
    }
    model = spec.compile()
    things = {
        bay.robot: {
            item.name: _thing(model, bay, item, home_m) for item, home_m in homes[bay.robot]
        }
        for bay in bays
    }
    paint(model, (thing for in_bay in things.values() for thing in in_bay.values()))
    origins = {
        bay.robot: (*corners[bay.robot], ARM_TABLE_M if bay.body == 'arm' else 0.0) for bay in bays
    }
    return Room(model, origins, things, {robot: model.body(robot).id for robot in drones})


def _thing(
    model: mujoco.MjModel, bay: Bay, item: SceneObject, home_m: tuple[float, float, float]
) -> Thing:
    body = model.body(f'{bay.robot}/{item.name}').id
    shape = (shape_of if bay.body == 'drone' else table_shape_of)(item)
    return Thing(item, shape, body, int(model.body_mocapid[body]), home_m)


def _add_table(
    spec: mujoco.MjSpec, bay: Bay, origin: tuple[float, float]
) -> list[tuple[SceneObject, tuple[float, float, float]]]:
    """Add an arm, its table and what lies there."""
    add_table(spec, origin)
    add_arm(spec, bay.robot, (*origin, ARM_TABLE_M))
    found = []
    for item in bay.scene.objects:
        shape = table_shape_of(item)
        z_m = ARM_TABLE_M + shape.height_m / 2
        home_m = (origin[0] + item.x_m, origin[1] + item.y_m, z_m)
        add_table_thing(spec, f'{bay.robot}/{item.name}', shape, home_m)
        found.append((item, home_m))
    light = [item.name for item, _ in found if table_shape_of(item).mass_kg]
    add_grips(spec, bay.robot, [f'{bay.robot}/{name}' for name in light])
    return found


def _add_things(
    spec: mujoco.MjSpec, bay: Bay, origin: tuple[float, float]
) -> list[tuple[SceneObject, tuple[float, float, float]]]:
    found = []
    for item in bay.scene.objects:
        x_m, y_m = origin[0] + item.x_m, origin[1] + item.y_m
        _add_furniture(spec, item, x_m, y_m, math.atan2(item.y_m, item.x_m))
        shape = shape_of(item)
        home_m = (x_m, y_m, height_of(item) + shape.height_m / 2)
        body = spec.worldbody.add_body(name=f'{bay.robot}/{item.name}', pos=home_m)
        bits = WALKING if shape.walks else SOLID
        half_m, radius_m = shape.height_m / 2, shape.radius_m
        size = [radius_m] * 3 if shape.is_cube else [radius_m, half_m, 0]
        body.add_geom(
            name=f'{bay.robot}/{item.name}',
            type=BOX if shape.is_cube else CYLINDER,
            size=size,
            mass=shape.mass_kg,
            contype=bits,
            conaffinity=bits,
        )
        if shape.walks:
            body.mocap = True
        else:
            body.add_freejoint()
        found.append((item, home_m))
    return found


def _add_furniture(
    spec: mujoco.MjSpec, item: SceneObject, x_m: float, y_m: float, bearing_rad: float
) -> None:
    """Add what an object lies on, under, in or near; the near one stands behind it."""
    if item.support == 'floor':
        return
    add = spec.worldbody.add_geom
    match item.relation:
        case 'on':
            _add_column(spec, x_m, y_m, SUPPORT_M)
        case 'near':
            away_m = BESIDE_M
            _add_column(
                spec,
                x_m + away_m * math.cos(bearing_rad),
                y_m + away_m * math.sin(bearing_rad),
                SUPPORT_M,
            )
        case 'under':
            add(
                type=CYLINDER,
                pos=[x_m, y_m, TABLE_M - TABLE_THICK_M / 2],
                size=[FURNITURE_M, TABLE_THICK_M / 2, 0],
            )
            for quarter in range(4):
                angle_rad = bearing_rad + math.pi / 4 + quarter * math.pi / 2
                leg_m = 0.8 * FURNITURE_M
                add(
                    type=CYLINDER,
                    pos=[
                        x_m + leg_m * math.cos(angle_rad),
                        y_m + leg_m * math.sin(angle_rad),
                        (TABLE_M - TABLE_THICK_M) / 2,
                    ],
                    size=[_LEG_M, (TABLE_M - TABLE_THICK_M) / 2, 0],
                )
        case 'in':
            for ahead, aside in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                long_m, thin_m = 0.7 * FURNITURE_M, 0.01
                add(
                    type=BOX,
                    pos=[x_m + ahead * long_m, y_m + aside * long_m, _BOX_M / 2],
                    size=[thin_m if ahead else long_m, thin_m if aside else long_m, _BOX_M / 2],
                )


def _add_column(spec: mujoco.MjSpec, x_m: float, y_m: float, height_m: float) -> None:
    spec.worldbody.add_geom(
        type=CYLINDER, pos=[x_m, y_m, height_m / 2], size=[FURNITURE_M, height_m / 2, 0]
    )
