"""People, animals and whatever else moves by itself in a room."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import mujoco

    from timely_llm_ros.world.shapes import Thing

WALK_M_S = 1.0
"""How fast somebody comes (m/s)."""

FROM_M = 7.0
"""From how far off (m)."""

SWAY_M, SWAY_S = 0.08, 4.0
"""How far somebody who stands steps from foot to foot (m), and how long that takes (s)."""


@dataclass(slots=True)
class Errand:
    """Somebody's way to a place, and back home afterwards."""

    began_s: float
    start_m: tuple[float, float]
    end_m: tuple[float, float]

    @property
    def lasts_s(self) -> float:
        """How long the way takes (s)."""
        return math.dist(self.start_m, self.end_m) / WALK_M_S

    def at(self, now_s: float) -> tuple[float, float]:
        """Return where somebody is on the way, or at its end."""
        share = min(1.0, (now_s - self.began_s) / max(self.lasts_s, 1e-9))
        return (
            self.start_m[0] + share * (self.end_m[0] - self.start_m[0]),
            self.start_m[1] + share * (self.end_m[1] - self.start_m[1]),
        )


class Walker:
    """One who moves. Only its place is simulated: it pushes drones, and nothing pushes it."""

    def __init__(self, thing: Thing, rng: random.Random) -> None:
        self.thing = thing
        self.errand: Errand | None = None
        self._phase = rng.uniform(0.0, math.tau)
        self._turn = rng.choice((-1.0, 1.0))

    def come(self, now_s: float, start_m: tuple[float, float], end_m: tuple[float, float]) -> None:
        """Walk from one place in the room to another."""
        self.errand = Errand(now_s, start_m, end_m)

    def go_home(self) -> None:
        """Be at home again at once, by a way that nobody sees."""
        self.errand = None

    def has_come(self, now_s: float) -> bool:
        """Return whether it is at the end of its way, or never left home."""
        return self.errand is None or now_s >= self.errand.began_s + self.errand.lasts_s

    def place_m(self, now_s: float) -> tuple[float, float, float]:
        """Return where its middle is (m, in the room)."""
        x_m, y_m, z_m = self.thing.home_m
        if self.errand is not None:
            # It walks on the floor, wherever its home is.
            return (*self.errand.at(now_s), self.thing.shape.height_m / 2)
        if self.thing.item.relation in ('in', 'under') or z_m > self.thing.shape.height_m / 2:
            return x_m, y_m, z_m
        angle_rad = self._phase + self._turn * math.tau * now_s / SWAY_S
        return x_m + SWAY_M * math.cos(angle_rad), y_m + SWAY_M * math.sin(angle_rad), z_m


def make_walkers(things: Iterable[Thing], seed: int) -> dict[int, Walker]:
    """Return those of the things that walk, by the number of their body."""
    rng = random.Random(seed)
    return {thing.body: Walker(thing, rng) for thing in things if thing.shape.walks}


def place_all(walkers: Iterable[Walker], data: mujoco.MjData, now_s: float) -> None:
    """Put everybody where they are at a time."""
    for walker in walkers:
        data.mocap_pos[walker.thing.mocap] = walker.place_m(now_s)
