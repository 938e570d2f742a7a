"""Where skills take a robot, as its envelope is checked by.

An amount is a number, or the name of the argument that says it; both are in metres or radians.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Direction = Literal['forward', 'backward', 'left', 'right', 'up', 'down']
"""Which way a robot moves, as seen from itself."""

Side = Literal['left', 'right', 'around']
"""Which way a robot turns; ``around`` ends with the heading that it began with."""

Amount = float | str


@dataclass(frozen=True, slots=True)
class Still:
    """The robot stays where it is, with the heading that it has."""


@dataclass(frozen=True, slots=True)
class Turn:
    """It turns on the spot by an angle (rad)."""

    side: Side
    angle: Amount = 0.0


@dataclass(frozen=True, slots=True)
class Move:
    """It moves straight over a distance (m), with its heading kept, at most at a speed (m/s)."""

    direction: Direction
    distance: Amount
    speed: Amount | None = None


@dataclass(frozen=True, slots=True)
class Climb:
    """From the ground it goes straight up to a height between two (m); in the air it stays."""

    least_m: float
    most_m: float


@dataclass(frozen=True, slots=True)
class Land:
    """It goes straight down to the ground."""


@dataclass(frozen=True, slots=True)
class Approach:
    """It moves straight to an object, or to anywhere within some distance of it (m).

    Attributes:
        target: The argument that names the object.
        within_m: How far from it, at most, it ends.
        to_its_height: Whether it ends at the object's height, rather than keeps its own.
        speed: At most (m/s); None where the driver says it.
    """

    target: str
    within_m: float = 0.0
    to_its_height: bool = False
    speed: Amount | None = None


Motion = Still | Turn | Move | Climb | Land | Approach
"""What a skill's ``motion`` may be."""
