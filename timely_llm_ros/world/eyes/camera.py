"""What a robot sees: rays from its camera to the things of its bay, and what they hit first.

A drone's camera looks ahead and down, and tells kinds. One hangs over each arm's table; things
there have tags on them, so that it tells names, and more exactly where they are.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from timely_llm_ros.sample_tasks import DRONE_KINDS
from timely_llm_ros.skills import Scene
from timely_llm_ros.world.airframe_shape import HALF_M
from timely_llm_ros.world.table import TABLE_M

if TYPE_CHECKING:
    from collections.abc import Collection

    from timely_llm_ros.world.options import Body, WorldOptions
    from timely_llm_ros.world.room import Room
    from timely_llm_ros.world.shapes import Thing

RANGE_M = 8.0
"""It tells nothing apart beyond that distance (m)."""

WIDE_RAD, HIGH_RAD, TILT_RAD = math.radians(120), math.radians(90), math.radians(40)
"""Angles of view, and by how much it looks down: a wide lens as racing drones have. A Tello's own
camera looks level through 83 degrees and sees nothing of what lies half a metre before its feet."""

HANGS_M, STEADY = (0.25, 0.0, TABLE_M + 1.5), 0.1
"""Where the camera of a table hangs, from below the arm (m), and its share of the spread of
positions that one in flight has."""

LEAST_SHARE = 0.25
"""A thing is in view if at least this share of its points is."""

LOST_SCORE, SURE_SCORE = 0.55, 0.95
"""Scores that a camera tells, from a thing that is just in view to one that is wholly in view."""

FIRST_NUMBER = 100
"""What is taken for another kind has a name with this number or a higher one."""

# Along the middle of a thing from its bottom to its top, and at its sides.
_POINTS = np.array(
    [(0, 0, z) for z in (-0.9, -0.45, 0.0, 0.45, 0.9)]
    + [(x, y, z) for z in (-0.45, 0.45) for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1))]
)
_SIDE = 0.7


@dataclass(frozen=True, slots=True)
class Seen:
    """One thing in view.

    Attributes:
        thing: Which.
        share: How much of it is in view, 0 to 1.
        beside_m: How far off it is beside the camera, height left out (m).
    """

    thing: Thing
    share: float
    beside_m: float


@dataclass(frozen=True, slots=True)
class Told:
    """What a camera says of one thing: it may be wrong.

    Attributes:
        label: What it takes it for.
        score: How sure it is.
        position_m: Where, from the drone's start or the arm's base.
    """

    label: str
    score: float
    position_m: tuple[float, float, float]


class Camera:
    """The camera of one robot."""

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        room: Room,
        robot: str,
        options: WorldOptions,
    ) -> None:
        self._model, self._data = model, data
        self._drone = room.drone_bodies.get(robot, -1)
        """Number of the body that carries it; -1 for none."""
        self._origin = room.origins[robot]
        self._things = room.things[robot]
        flies = self._drone >= 0
        self._noise = options.noise
        self._spread_m = _spread_m(options, 'drone' if flies else 'arm')
        names = list(self._things)
        self._labels = {
            name: thing.item.kind if flies else name for name, thing in self._things.items()
        }
        self._mistakes = DRONE_KINDS if flies else names
        self._rng = np.random.default_rng([options.seed, 2, zlib.crc32(robot.encode())])
        tilt_rad = TILT_RAD if flies else math.pi / 2
        down, level = math.sin(tilt_rad), math.cos(tilt_rad)
        # Rows: along the view, to its left, to its top.
        self._axes = np.array([[level, 0, -down], [0, 1, 0], [down, 0, level]])

    def in_view(self, names: Collection[str] | None = None) -> list[Seen]:
        """Return what is truly in view of all things or of some."""
        things = [t for name, t in self._things.items() if names is None or name in names]
        eye, frame = self._mount()
        rays, owners = self._rays(things, eye, self._axes @ frame.T)
        if not len(rays):
            return []
        geoms = np.full(len(rays), -1, dtype=np.int32)
        distances = np.empty(len(rays))
        mujoco.mj_multiRay(
            self._model, self._data, eye, np.ascontiguousarray(rays).ravel(), None, True,
            self._drone, geoms, distances, None, len(rays), RANGE_M,
        )  # fmt: skip
        bodies = np.where(geoms >= 0, self._model.geom_bodyid[geoms], -1)
        found = []
        for number, thing in enumerate(things):
            share = float(np.sum(bodies[owners == number] == thing.body)) / len(_POINTS)
            if share >= LEAST_SHARE:
                off_m = self._data.xpos[thing.body] - eye
                found.append(Seen(thing, share, float(np.hypot(off_m[0], off_m[1]))))
        return found

    def look(self) -> list[Told]:
        """Return what the camera says it sees, with what it misses and mistakes."""
        told = []
        for seen in self.in_view():
            missed, mistaken = self._rng.random(2) < self._noise
            off_m = self._rng.normal(0.0, self._spread_m, 3)
            other = self._mistakes[int(self._rng.integers(len(self._mistakes)))]
            if missed:
                continue
            place_m = self._data.xpos[seen.thing.body] + off_m - self._origin
            told.append(
                Told(
                    other if mistaken else self._labels[seen.thing.item.name],
                    LOST_SCORE + (SURE_SCORE - LOST_SCORE) * seen.share,
                    tuple(place_m.tolist()),
                )
            )
        return told

    def view(self) -> tuple[Any, Any, Any]:
        """Return where it is (m, in the room), and the directions of its view and of its top."""
        eye, frame = self._mount()
        ahead, _, above = self._axes @ frame.T
        return eye, ahead, above

    def _mount(self) -> tuple[Any, Any]:
        """Return where the camera is (m, in the room) and how what carries it is turned."""
        if self._drone < 0:
            x_m, y_m, _ = self._origin
            return np.array([x_m + HANGS_M[0], y_m + HANGS_M[1], HANGS_M[2]]), np.eye(3)
        frame = self._data.xmat[self._drone].reshape(3, 3)
        return self._data.xpos[self._drone] + frame @ np.array([HALF_M[0], 0.0, 0.0]), frame

    def _rays(self, things: list[Thing], eye: Any, axes: Any) -> tuple[Any, Any]:
        """Return the rays to the points of things that the lens takes in, and whose they are."""
        if not things:
            return np.empty((0, 3)), np.empty(0, dtype=int)
        middles = np.array([self._data.xpos[thing.body] for thing in things])
        halves = np.array(
            [
                (_SIDE * t.shape.radius_m, _SIDE * t.shape.radius_m, t.shape.height_m / 2)
                for t in things
            ]
        )
        rays = (middles[:, None] + halves[:, None] * _POINTS - eye).reshape(-1, 3)
        owners = np.repeat(np.arange(len(things)), len(_POINTS))
        ahead, aside, above = axes @ rays.T
        inside = (
            (ahead > 0)
            & (np.abs(aside) <= ahead * math.tan(WIDE_RAD / 2))
            & (np.abs(above) <= ahead * math.tan(HIGH_RAD / 2))
            & (np.linalg.norm(rays, axis=1) <= RANGE_M)
        )
        return rays[inside], owners[inside]


def _spread_m(options: WorldOptions, body: Body) -> float:
    """Return the spread of the positions that a camera tells (m)."""
    return options.position_noise_m * (STEADY if body == 'arm' else 1.0)


def survey(scene: Scene, options: WorldOptions, number: int = 0, *, body: Body = 'drone') -> Scene:
    """Return a scene as a camera with the noise of the options tells it.

    Things are missed, taken for another kind, and told a little beside where they are, as by
    :meth:`Camera.look` when each is in view. No plan knows the truth.

    Args:
        scene: The truth.
        options: Seed and noise.
        number: Of the survey: equal numbers of one seed see the same.
        body: Whose camera it is.
    """
    rng = np.random.default_rng([options.seed, 3, number])
    found = []
    for place, item in enumerate(scene.objects):
        missed, mistaken = rng.random(2) < options.noise
        ahead_m, aside_m = rng.normal(0.0, _spread_m(options, body), 2).tolist()
        other = DRONE_KINDS[int(rng.integers(len(DRONE_KINDS)))]
        if missed:
            continue
        seen = replace(item, x_m=item.x_m + ahead_m, y_m=item.y_m + aside_m)
        if mistaken:
            seen = replace(seen, name=f'{other}_{FIRST_NUMBER + place}', kind=other)
        found.append(seen)
    return Scene(tuple(found))
