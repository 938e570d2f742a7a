"""Pictures from the cameras of robots, where there is OpenGL: no window is opened."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.world.eyes.camera import HIGH_RAD, WIDE_RAD

if TYPE_CHECKING:
    from timely_llm_ros.world.eyes.camera import Camera

HEIGHT = 360
WIDTH = round(HEIGHT * math.tan(WIDE_RAD / 2) / math.tan(HIGH_RAD / 2))
"""Size of a picture in pixels: it has the camera's angles of view."""

NEAR_M, FAR_M = 0.02, 100.0
"""Nothing nearer or farther than this is drawn (m)."""

PLATFORMS = ('egl', 'osmesa')
"""Where OpenGL is looked for, in this order."""

_SPARE = 64


class Photographer:
    """Takes pictures in one world. Used from one asyncio loop; drawing takes a thread of its own.

    Args:
        model: The world, as MuJoCo simulates it.
        data: Where everything is.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self._model, self._data = model, data
        # A context of OpenGL belongs to the thread that made it.
        self._thread = ThreadPoolExecutor(1, 'pictures')
        self._context: Any = None
        self._drawing: Any = None

    async def take(self, camera: Camera) -> np.ndarray:
        """Return what a camera sees now: bytes of red, green, blue by row and column.

        Its shape is (``HEIGHT``, ``WIDTH``, 3).

        Raises:
            ConfigurationError: There is no OpenGL, or not PyOpenGL.
        """
        scene = mujoco.MjvScene(self._model, self._model.ngeom + _SPARE)
        mujoco.mjv_updateScene(
            self._model, self._data, mujoco.MjvOption(), None, mujoco.MjvCamera(),
            mujoco.mjtCatBit.mjCAT_ALL.value, scene,
        )  # fmt: skip
        # Shadows of thin things are specks at this size, and take most of the time.
        scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
        eye, ahead, above = camera.view()
        high_m = NEAR_M * math.tan(HIGH_RAD / 2)
        # It draws one picture for each of two eyes, which are one here.
        for lens in scene.camera:
            lens.pos, lens.forward, lens.up = eye, ahead, above
            lens.frustum_center, lens.frustum_width = 0.0, 0.0
            lens.frustum_bottom, lens.frustum_top = -high_m, high_m
            lens.frustum_near, lens.frustum_far = NEAR_M, FAR_M
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._draw, scene)

    def close(self) -> None:
        """Free what it drew with."""
        self._thread.submit(self._free)
        self._thread.shutdown()

    # On its thread

    def _draw(self, scene: mujoco.MjvScene) -> np.ndarray:
        if self._drawing is None:
            self._context = _open_context()
            self._model.vis.global_.offwidth, self._model.vis.global_.offheight = WIDTH, HEIGHT
            size = mujoco.mjtFontScale.mjFONTSCALE_100.value
            self._drawing = mujoco.MjrContext(self._model, size)
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._drawing)
        whole = mujoco.MjrRect(0, 0, WIDTH, HEIGHT)
        pixels = np.empty((HEIGHT, WIDTH, 3), np.uint8)
        mujoco.mjr_render(whole, scene, self._drawing)
        mujoco.mjr_readPixels(pixels, None, whole, self._drawing)
        return np.flipud(pixels)

    def _free(self) -> None:
        for part in (self._drawing, self._context):
            if part is not None:
                part.free()
        self._drawing = self._context = None


def _open_context() -> Any:
    """Return a context of OpenGL that the calling thread draws in.

    Raises:
        ConfigurationError: There is none to be had.
    """
    problems = []
    for platform in PLATFORMS:
        # PyOpenGL raises what it likes where a library is missing.
        try:
            context = import_module(f'mujoco.{platform}').GLContext(WIDTH, HEIGHT)
            context.make_current()
        except Exception as err:  # noqa: BLE001 (it becomes an error of ours)
            problems.append(f'{platform}: {err}')
        else:
            return context
    raise ConfigurationError(
        'pictures: expected PyOpenGL (pip install PyOpenGL) and the library of EGL or OSMesa: '
        + '; '.join(problems)
    )
