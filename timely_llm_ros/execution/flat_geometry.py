"""Distances in the plane, of what a fence has to look at."""

from __future__ import annotations

import math

Point = tuple[float, float]


def line_to_point_m(begin: Point, along: Point, point: Point) -> float:
    """Return how near a line that begins there and leads along comes to a point."""
    to_x, to_y = point[0] - begin[0], point[1] - begin[1]
    square = along[0] * along[0] + along[1] * along[1]
    share = 0.0
    if square > 0:
        share = min(1.0, max(0.0, (to_x * along[0] + to_y * along[1]) / square))
    return math.hypot(to_x - share * along[0], to_y - share * along[1])


def line_to_rectangle_m(begin: Point, end: Point, low: Point, high: Point) -> float:
    """Return how near a line comes to a rectangle along the axes; 0 where it touches it."""
    if _meets(begin, end, low, high):
        return 0.0
    along = end[0] - begin[0], end[1] - begin[1]
    return min(
        point_to_rectangle_m(begin, low, high),
        point_to_rectangle_m(end, low, high),
        *(
            line_to_point_m(begin, along, (x, y))
            for x in (low[0], high[0])
            for y in (low[1], high[1])
        ),
    )


def point_to_rectangle_m(point: Point, low: Point, high: Point) -> float:
    """Return how near a point is to a rectangle; 0 where it is in it."""
    return math.hypot(
        max(low[0] - point[0], 0.0, point[0] - high[0]),
        max(low[1] - point[1], 0.0, point[1] - high[1]),
    )


def _meets(begin: Point, end: Point, low: Point, high: Point) -> bool:
    """Return whether a line and a rectangle have a point in common."""
    first, last = 0.0, 1.0
    for axis in (0, 1):
        along = end[axis] - begin[axis]
        if along == 0:
            if not low[axis] <= begin[axis] <= high[axis]:
                return False
            continue
        shares = (low[axis] - begin[axis]) / along, (high[axis] - begin[axis]) / along
        first, last = max(first, min(shares)), min(last, max(shares))
        if first > last:
            return False
    return True
