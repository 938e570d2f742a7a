"""What lies on an arm's table: blocks, things to grip, boxes to put them in, places to wipe."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import mujoco

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.sample_tasks import BLOCKS, CONTAINERS, SURFACES
from timely_llm_ros.skills import Scene
from timely_llm_ros.world.shapes import Shape
from timely_llm_ros.world.table.arm_shape import TABLE_HALF_M, TABLE_M

if TYPE_CHECKING:
    from timely_llm_ros.skills import SceneObject

BLOCK = Shape(0.025, 0.05, 0.06, is_cube=True)
ITEM = Shape(0.022, 0.05, 0.05)
CONTAINER = Shape(0.1, 0.08, is_cube=True)
SURFACE = Shape(0.11, 0.01)
"""A place of the table that stands for a whole desk or bench: an arm cannot reach one."""

NEAR_RING_M, FAR_RING_M = 0.36, 0.58
"""How far from the arm's base things lie (m): what is wide only on the far ring."""

PLACES, SPAN_RAD = 12, math.radians(110)
"""Places of each ring, and how far to each side of straight ahead they reach."""

_WALL_M = 0.004


def table_shape_of(item: SceneObject) -> Shape:
    """Return the size and mass of an object on a table."""
    if item.kind in SURFACES:
        return SURFACE
    if item.kind in CONTAINERS:
        return CONTAINER
    return BLOCK if item.kind in BLOCKS else ITEM


def arrange_table(scene: Scene) -> Scene:
    """Return a scene whose things lie in reach of an arm, apart from each other.

    What lies ``on`` or ``under`` what does not matter here: everything lies on the table.

    Raises:
        ConfigurationError: There are too many.
    """
    wide = [item for item in scene.objects if item.kind in (*CONTAINERS, *SURFACES)]
    small = [item for item in scene.objects if item not in wide]
    if len(wide) > PLACES or len(scene.objects) > 2 * PLACES:
        raise ConfigurationError(
            f'{len(scene.objects)} objects on a table, {len(wide)} of them to put things in or to '
            f'wipe: expected at most {2 * PLACES}, {PLACES} of them such'
        )
    far = [_place(FAR_RING_M, number) for number in range(PLACES)]
    near = [_place(NEAR_RING_M, number) for number in range(PLACES)]
    # Wide things every other place at first, so that a hand between them touches none.
    far = far[::2] + far[1::2]
    places = dict(zip((item.name for item in wide), far, strict=False))
    free = [*near, *far[len(wide) :]]
    places.update(zip((item.name for item in small), free, strict=False))
    return Scene(
        tuple(
            replace(
                item,
                x_m=places[item.name][0],
                y_m=places[item.name][1],
                z_m=table_shape_of(item).height_m / 2,
            )
            for item in scene.objects
        )
    )


def _place(ring_m: float, number: int) -> tuple[float, float]:
    angle_rad = SPAN_RAD * (2 * number / (PLACES - 1) - 1)
    return round(ring_m * math.cos(angle_rad), 3), round(ring_m * math.sin(angle_rad), 3)


def add_table(spec: mujoco.MjSpec, origin_m: tuple[float, float]) -> None:
    """Add the table itself; its middle is where the arm stands."""
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX,
        pos=[*origin_m, TABLE_M / 2],
        size=[TABLE_HALF_M, TABLE_HALF_M, TABLE_M / 2],
    )


def add_table_thing(
    spec: mujoco.MjSpec, name: str, shape: Shape, middle_m: tuple[float, float, float]
) -> None:
    """Add one thing; what an arm cannot grip is fixed to the table."""
    body = spec.worldbody.add_body(name=name, pos=list(middle_m))
    radius_m, half_m = shape.radius_m, shape.height_m / 2
    if shape is CONTAINER:
        for ahead, aside in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            wall = [_WALL_M if ahead else radius_m, _WALL_M if aside else radius_m, half_m]
            body.add_geom(
                type=mujoco.mjtGeom.mjGEOM_BOX, pos=[ahead * radius_m, aside * radius_m, 0],
                size=wall,
            )  # fmt: skip
        _add_floor(body, radius_m, -half_m + _WALL_M)
        return
    cube = shape.is_cube
    body.add_geom(
        name=name,
        type=mujoco.mjtGeom.mjGEOM_BOX if cube else mujoco.mjtGeom.mjGEOM_CYLINDER,
        size=[radius_m] * 3 if cube else [radius_m, half_m, 0],
        mass=shape.mass_kg,
        # With friction of rolling: round things come to rest.
        condim=6,
        friction=[1.0, 0.01, 0.005],
    )
    if shape.mass_kg:
        body.add_freejoint()


def _add_floor(body: mujoco.MjsBody, radius_m: float, z_m: float) -> None:
    body.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX, pos=[0, 0, z_m], size=[radius_m, radius_m, _WALL_M]
    )
