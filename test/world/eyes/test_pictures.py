"""Pictures from robots' cameras show what is there."""

from __future__ import annotations

import asyncio
from ctypes.util import find_library
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.robots.worlds import fly, make_world

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.world.eyes import Photographer, pictures

if TYPE_CHECKING:
    from timely_llm_ros.world import World

has_gl = pytest.mark.skipif(
    not (find_library('EGL') or find_library('OSMesa')),
    reason='needs the library of EGL or OSMesa, which no wheel brings',
)

CUP = SceneObject('cup_1', 'cup', 'red', x_m=2.5, y_m=0.17)
TREE = SceneObject('tree_1', 'tree', 'green', x_m=1.5, y_m=0.1)


def picture(world: World) -> np.ndarray:
    async def take() -> np.ndarray:
        photographer = Photographer(world.model, world.data)
        try:
            await photographer.take(world.cameras['d1'])
            return await photographer.take(world.cameras['d1'])
        finally:
            photographer.close()

    return asyncio.run(take())


def patch(pixels: np.ndarray, channel: int) -> tuple[float, float] | None:
    """Return row and column of the middle of what has one color; None where nothing has."""
    others = np.delete(pixels, channel, axis=2).max(axis=2).astype(int)
    found = np.argwhere(pixels[:, :, channel] > 1.5 * others + 20)
    return None if len(found) < 10 else tuple(found.mean(axis=0))


@has_gl
def test_a_picture_shows_a_thing_where_the_camera_sees_it() -> None:
    world = make_world(Scene((CUP,)))
    fly(world, 'takeoff;')
    pixels = picture(world)
    assert pixels.shape == (pictures.HEIGHT, pictures.WIDTH, 3)
    middle = patch(pixels, 0)
    assert middle is not None
    eye, ahead, above = world.cameras['d1'].view()
    (seen,) = world.cameras['d1'].in_view()
    off = world.data.xpos[seen.thing.body] - eye
    left = np.cross(above, ahead)
    scale = pictures.HEIGHT / 2 / (off @ ahead)
    row, column = pictures.HEIGHT / 2 - off @ above * scale, pictures.WIDTH / 2 - off @ left * scale
    assert middle == pytest.approx((row, column), abs=6)


@has_gl
def test_what_hides_a_thing_hides_it_in_pictures_too() -> None:
    world = make_world(Scene((CUP, TREE)))
    fly(world, 'takeoff;move_down(50);')
    pixels = picture(world)
    assert patch(pixels, 1) is not None
    assert patch(pixels, 0) is None


def test_without_opengl_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, 'PLATFORMS', ('nowhere',))
    world = make_world()
    with pytest.raises(ConfigurationError, match=r'pip install PyOpenGL.*nowhere'):
        picture(world)
