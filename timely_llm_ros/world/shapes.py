"""How large and heavy things are, and what furniture carries them.

Sizes are those of small ones of their kind: nothing is wider than half a metre, because drones stop
half a metre from the middle of what they fly to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.sample_tasks import ANIMALS, BLOCKS, DRONE_KINDS, OBSTACLES, PEOPLE

if TYPE_CHECKING:
    from timely_llm_ros.skills import SceneObject

FURNITURE_M = 0.28
"""Radius of every piece of furniture (m)."""

SUPPORT_M = 0.4
"""Height of what things lie on (m)."""

TABLE_M, TABLE_THICK_M = 0.6, 0.04
"""Height and thickness of what things lie under (m)."""

BESIDE_M = 0.6
"""How far behind a thing the furniture stands that it is near (m)."""


@dataclass(frozen=True, slots=True)
class Shape:
    """An upright cylinder or a cube, and what it weighs.

    Attributes:
        radius_m: Of a cylinder, or half the edge of a cube.
        height_m: From bottom to top.
        mass_kg: 0 for what a drone cannot move.
        walks: Whether it goes where it will.
        is_cube: Whether it has edges.
    """

    radius_m: float
    height_m: float
    mass_kg: float = 0.0
    walks: bool = False
    is_cube: bool = False


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing of a bay, as the model has it.

    Attributes:
        item: What its scene says of it.
        shape: Its size.
        body: Number of its body.
        mocap: Number by which one that walks is moved, -1 for what lies.
        home_m: Where its middle is at first (m, in the room).
    """

    item: SceneObject
    shape: Shape
    body: int
    mocap: int
    home_m: tuple[float, float, float]


_PERSON = Shape(0.18, 1.7, walks=True)
_CHILD = Shape(0.14, 1.0, walks=True)
_ANIMAL = Shape(0.14, 0.35, walks=True)
_OBSTACLE = Shape(0.15, 1.4, walks=True)
_BLOCK = Shape(0.025, 0.05, 0.06, is_cube=True)
_THING = Shape(0.08, 0.16, 0.4)

_SIZES = {
    **dict.fromkeys(PEOPLE, _PERSON),
    **dict.fromkeys(('child', 'toddler'), _CHILD),
    **dict.fromkeys(ANIMALS, _ANIMAL),
    **dict.fromkeys(OBSTACLES, _OBSTACLE),
    **dict.fromkeys(BLOCKS, _BLOCK),
}

KNOWN_KINDS = frozenset((*DRONE_KINDS, *_SIZES))
"""Kinds of things that a room may have and a camera may tell."""

UNDER_M = 0.5
"""What lies under something is no higher than this (m)."""


def shape_of(item: SceneObject) -> Shape:
    """Return the size and mass of an object; what is on, in or under a thing is low."""
    shape = _SIZES.get(item.kind, _THING)
    is_low = item.relation == 'under' or (item.support != 'floor' and item.relation != 'near')
    if is_low and shape.height_m > UNDER_M:
        return Shape(shape.radius_m, UNDER_M, shape.mass_kg, shape.walks, shape.is_cube)
    return shape


def height_of(item: SceneObject) -> float:
    """Return the height of what an object stands on (m)."""
    return SUPPORT_M if item.relation == 'on' and item.support != 'floor' else 0.0
