"""What color things have, in the window and in pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco

from timely_llm_ros.sample_tasks import ANIMALS, PEOPLE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timely_llm_ros.skills import SceneObject
    from timely_llm_ros.world.shapes import Thing

Color = tuple[float, float, float]
"""Shares of red, green and blue."""

WOOD: Color = (0.75, 0.65, 0.5)
"""Of furniture."""

_PERSON, _ANIMAL, _THING = (0.9, 0.45, 0.2), (0.85, 0.7, 0.2), (0.45, 0.6, 0.8)
_PAINTS = {
    'red': (0.8, 0.15, 0.15), 'blue': (0.15, 0.3, 0.8), 'green': (0.15, 0.6, 0.25),
    'yellow': (0.95, 0.85, 0.2), 'black': (0.1, 0.1, 0.1), 'white': (0.95, 0.95, 0.95),
    'brown': (0.45, 0.3, 0.15), 'grey': (0.5, 0.5, 0.5), 'purple': (0.5, 0.2, 0.6),
    'pink': (0.95, 0.6, 0.7),
}  # fmt: skip
"""Of things that have the color of their attribute."""

_TILE_DARK, _TILE_LIGHT = [0.55, 0.57, 0.6], [0.64, 0.66, 0.69]
_SKY_HIGH, _SKY_LOW = [0.55, 0.7, 0.9], [0.9, 0.94, 1.0]


def color_of(item: SceneObject) -> Color:
    """Return the color of a thing."""
    color = _PERSON if item.kind in PEOPLE else _ANIMAL if item.kind in ANIMALS else _THING
    return _PAINTS.get(item.attribute, color)


def add_surroundings(spec: mujoco.MjSpec) -> str:
    """Give a room light and a sky; return the name of the floor's material, tiles of a metre."""
    spec.worldbody.add_light(
        pos=[0, 0, 20], dir=[0.3, 0.2, -1], type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL
    )
    spec.add_texture(
        name='sky',
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=_SKY_HIGH,
        rgb2=_SKY_LOW,
        width=32,
        height=192,
    )
    spec.add_texture(
        name='tiles',
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=_TILE_DARK,
        rgb2=_TILE_LIGHT,
        width=64,
        height=64,
    )
    tiles = spec.add_material(name='tiles', texrepeat=[0.5, 0.5], texuniform=True)
    tiles.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = 'tiles'
    return 'tiles'


def paint(model: mujoco.MjModel, things: Iterable[Thing]) -> None:
    """Give furniture and things their colors; nothing else depends on them."""
    standing = (model.geom_bodyid == 0) & (model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE)
    model.geom_rgba[standing, :3] = WOOD
    for thing in things:
        model.geom_rgba[model.geom_bodyid == thing.body, :3] = color_of(thing.item)
