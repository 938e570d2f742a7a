"""Where a robot may be, and where a call may take it, as far as its skills' motions tell.

What is not known for sure is taken for anything that it may be: a place becomes a disc, a height a
range, and a heading that is not known leads in every direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from timely_llm_ros.skills import Approach, Climb, Land, Move, Still, Turn

if TYPE_CHECKING:
    from timely_llm_ros.skills import Amount, Call, Motion, Scene

_QUARTERS = {'forward': 0, 'left': 1, 'backward': 2, 'right': 3}


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a robot may be, from its start: x forward, y left, z up.

    Attributes:
        x_m: Middle of the disc.
        y_m: Middle of the disc.
        radius_m: Of the disc; 0 where the place is known.
        low_m: Least height.
        high_m: Greatest height.
        heading_rad: Counter-clockwise from its start; None where it is not known.
    """

    x_m: float = 0.0
    y_m: float = 0.0
    radius_m: float = 0.0
    low_m: float = 0.0
    high_m: float = 0.0
    heading_rad: float | None = 0.0


@dataclass(frozen=True, slots=True)
class Way:
    """Where a call may take a robot: along a line and to its sides, between two heights.

    Attributes:
        start: Where it may be before the call.
        end: Where it may be after it.
        radius_m: How far from the line between their middles it may come.
        low_m: Least height on the way.
        high_m: Greatest height on the way.
        travels: Whether its place may change.
        rises: Whether its height may change.
        turns: Whether its heading may change, on the way or for good.
        departs: Whether it leaves the ground.
        to_ground: Whether it ends on the ground.
        is_parallel: Whether it takes the same way from wherever it may be.
    """

    start: Whereabouts
    end: Whereabouts
    radius_m: float
    low_m: float
    high_m: float
    travels: bool = False
    rises: bool = False
    turns: bool = False
    departs: bool = False
    to_ground: bool = False
    is_parallel: bool = False

    @property
    def anywhere(self) -> Whereabouts:
        """Where it may be if the call is cut short."""
        start, end = self.start, self.end
        along_m = math.hypot(end.x_m - start.x_m, end.y_m - start.y_m)
        return Whereabouts(
            (start.x_m + end.x_m) / 2,
            (start.y_m + end.y_m) / 2,
            along_m / 2 + self.radius_m,
            self.low_m,
            self.high_m,
            None if self.turns else start.heading_rad,
        )


def way_of(motion: Motion, call: Call, scene: Scene, start: Whereabouts) -> Way:
    """Return where a call may take a robot; an object that is missing is at the robot's start."""
    match motion:
        case Still():
            return _way(start, start)
        case Turn(side='around'):
            return replace(_way(start, start), turns=True)
        case Turn(side=side, angle=angle):
            heading = start.heading_rad
            if heading is not None:
                by_rad = amount_of(angle, call)
                heading = math.remainder(
                    heading + (by_rad if side == 'left' else -by_rad), math.tau
                )
            return replace(_way(start, replace(start, heading_rad=heading)), turns=True)
        case Move(direction='up' | 'down' as direction, distance=distance):
            rise_m = amount_of(distance, call) * (1 if direction == 'up' else -1)
            end = replace(start, low_m=start.low_m + rise_m, high_m=start.high_m + rise_m)
            return _way(start, end)
        case Move(direction=direction, distance=distance):
            way = _way(start, _moved(start, direction, amount_of(distance, call)))
            return replace(way, is_parallel=start.heading_rad is not None)
        case Climb(least_m=least_m, most_m=most_m):
            if start.low_m == start.high_m == 0.0:
                end = replace(start, low_m=least_m, high_m=most_m)
            else:
                end = replace(start, high_m=max(start.high_m, most_m))
            return replace(_way(start, end), departs=True)
        case Land():
            return replace(_way(start, replace(start, low_m=0.0, high_m=0.0)), to_ground=True)
        case Approach():
            return _way(start, _reached(motion, call, scene, start))


def amount_of(amount: Amount, call: Call) -> float:
    """Return an amount that a call has or its motion says (SI units)."""
    if not isinstance(amount, str):
        return amount
    return next(float(one.value) for one in call.arguments if one.name == amount)


def _way(start: Whereabouts, end: Whereabouts) -> Way:
    return Way(
        start,
        end,
        max(start.radius_m, end.radius_m),
        min(start.low_m, end.low_m),
        max(start.high_m, end.high_m),
        travels=(start.x_m, start.y_m, start.radius_m) != (end.x_m, end.y_m, end.radius_m),
        rises=(start.low_m, start.high_m) != (end.low_m, end.high_m),
        turns=start.heading_rad is None or start.heading_rad != end.heading_rad,
    )


def _moved(start: Whereabouts, direction: str, distance_m: float) -> Whereabouts:
    heading = start.heading_rad
    if heading is None:
        return replace(start, radius_m=start.radius_m + abs(distance_m))
    angle = heading + _QUARTERS[direction] * math.pi / 2
    return replace(
        start,
        x_m=start.x_m + distance_m * math.cos(angle),
        y_m=start.y_m + distance_m * math.sin(angle),
    )


def _reached(motion: Approach, call: Call, scene: Scene, start: Whereabouts) -> Whereabouts:
    name = next(str(one.value) for one in call.arguments if one.name == motion.target)
    item = scene.get(name)
    x_m, y_m, z_m = (item.x_m, item.y_m, item.z_m) if item is not None else (0.0, 0.0, 0.0)
    low_m, high_m = (z_m, z_m) if motion.to_its_height else (start.low_m, start.high_m)
    return Whereabouts(x_m, y_m, motion.within_m, low_m, high_m, None)
