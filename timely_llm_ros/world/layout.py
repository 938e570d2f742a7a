"""Where bays lie in the room, and how a scene is laid out so that its things can stand there."""

from __future__ import annotations

import math
from dataclasses import replace

from timely_llm_ros.skills import Scene

BAY_M = 16.0
"""Width of a bay (m)."""

REACH_M = 3.5
"""Things lie within this distance of a drone's start, forward and to the side (m)."""

FREE_M = 1.3
"""Nothing stands nearer to a drone's start than this (m): it takes off there."""

APART_M = 1.2
"""Things stand at least so far apart (m), where there is room for it."""

LEAST_M = 0.1
"""So far ahead or behind, left or right of the start everything is at least (m)."""

_ROUNDS = 60


def bay_origin(place: int, bays: int) -> tuple[float, float]:
    """Return where the drone of a bay starts (m): bays lie in a square."""
    columns = max(1, math.ceil(math.sqrt(bays)))
    return BAY_M * (place % columns), BAY_M * (place // columns)


def arrange(scene: Scene) -> Scene:
    """Return a scene whose things stand within a bay, apart from each other and from its start.

    No thing changes its side: what was ahead or to the left of the start is still so.
    """
    places = [[item.x_m, item.y_m] for item in scene.objects]
    farthest = max((abs(value) for place in places for value in place), default=0.0)
    scale = min(1.0, REACH_M / farthest) if farthest else 1.0
    signs = [[1.0 if value >= 0 else -1.0 for value in place] for place in places]
    places = [
        [scale * value or LEAST_M * sign for value, sign in zip(*pair, strict=True)]
        for pair in zip(places, signs, strict=True)
    ]
    for _ in range(_ROUNDS):
        for number, place in enumerate(places):
            for other in places[:number] + places[number + 1 :]:
                _push(place, other, APART_M, number)
            # Last, as it matters most.
            _push(place, (0.0, 0.0), FREE_M, number)
            for axis in (0, 1):
                inside = min(max(signs[number][axis] * place[axis], LEAST_M), REACH_M)
                place[axis] = signs[number][axis] * inside
    return Scene(
        tuple(
            replace(item, x_m=round(x_m, 1), y_m=round(y_m, 1))
            for item, (x_m, y_m) in zip(scene.objects, places, strict=True)
        )
    )


def _push(
    place: list[float], other: list[float] | tuple[float, float], apart_m: float, number: int
) -> None:
    """Move a place away from another one until they are apart."""
    ahead, aside = place[0] - other[0], place[1] - other[1]
    distance = math.hypot(ahead, aside)
    if distance >= apart_m:
        return
    # Two things at one place leave it in directions of their own.
    if distance < 1e-6:
        ahead, aside, distance = math.cos(number), math.sin(number), 1.0
    place[0] = other[0] + ahead / distance * apart_m
    place[1] = other[1] + aside / distance * apart_m
