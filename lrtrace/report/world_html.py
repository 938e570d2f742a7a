"""Pictures of a world at the moments that matter, from above, as SVG."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lrtrace.report.text import e, kind_name, seconds
from lrtrace.statistics import figures
from lrtrace.world_moments import worst_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lrtrace.run import Run
    from lrtrace.world_moments import Place, WorldMoment

MOST_PICTURES = 9
"""So many pictures are shown of a run."""

MOST_NAME = 24
"""A name in a picture has so many letters."""

WIDTH, HEIGHT, MARGIN = 360, 280, 26
"""Size of a picture and what is left free at its edges, in units of its own."""

LEAST_M, LEAST_TABLE_M = 5.0, 1.2
"""A picture shows at least so much of the room in each direction (m), or of an arm's table."""

AROUND_M = 8.0
"""Things farther from the robot's path than this (m) are left out."""

LETTER, LINE = 6.4, 13.0
"""About how wide a letter and how high a line of a name is, in units of a picture."""

EVENTS = {'wreck': 'turned over', 'hit': 'touched', 'near': 'too near to'}


def world_pictures(runs: Sequence[Run]) -> str:
    """Return the section that shows what happened in the world; empty where there was none."""
    parts = [
        f'<h3>{e(run.label)}{_score(run)}</h3><div class="moments">'
        + ''.join(_picture(run, moment) for moment in worst_first(run.moments, MOST_PICTURES))
        + '</div>'
        for run in runs
        if run.moments
    ]
    if not parts:
        return ''
    keys = (
        ('robot', 'robot and its path in the task'),
        ('view', 'what it can see'),
        ('target', 'what the task is about'),
        ('danger', 'who comes, and the way'),
        ('mishap', 'touched, or too near'),
    )
    legend = ''.join(f'<li class="{name}">{text}</li>' for name, text in keys)
    return (
        '<section class="world"><h2>In the world</h2>'
        '<p>Seen from above, a square is a metre. Each picture is a task at the moment that '
        'matters: when whoever came was nearest, when something was touched, or when the world '
        f'judged. What went wrong comes first.</p>{"".join(parts)}'
        f'<ul class="key">{legend}</ul></section>'
    )


def _score(run: Run) -> str:
    found = figures(run.tasks)
    if not found.judged:
        return ''
    return f'<span> · {found.by_world} of {found.judged} tasks succeeded by the world</span>'


def _picture(run: Run, moment: WorldMoment) -> str:
    asked = next((task.instruction for task in run.tasks if task.plan_id == moment.plan_id), '')
    word = 'succeeded' if moment.succeeded else 'failed'
    mishaps = dict.fromkeys(f'{EVENTS[one.event]} {one.what}' for one in moment.mishaps)
    why = '; '.join([moment.why, *mishaps])
    title = f'{moment.robot}, {kind_name(moment.kind)}'
    return (
        f'<figure class="moment"><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="'
        f'{e(title)}, {word} by the world: {e(why)}">{_Map(moment).svg()}</svg><figcaption>'
        f'<b>{e(title)}</b> <span class="verdict {word}">{word}</span>'
        f'<span class="at">{e(seconds(moment.pose.at_s))}</span>'
        f'<p class="asked">{e(asked)}</p><p>{e(why)}</p></figcaption></figure>'
    )


class _Map:
    """Draws one moment. x is to the right and y up, as on a map."""

    def __init__(self, moment: WorldMoment) -> None:
        self._moment = moment
        here, way = moment.pose.place_m, moment.way
        self._things = {
            name: place
            for name, place in moment.things.items()
            if math.dist(place, here) <= AROUND_M and (way is None or name != way.name)
        }
        shown = [here, *moment.path_m, *self._things.values()]
        shown += [] if way is None else [way.at(moment.pose.at_s), way.end_m]
        lows, highs = zip(*((min(one), max(one)) for one in zip(*shown, strict=True)), strict=True)
        # What flies has a view, an arm's hand has none.
        least_m = LEAST_M if moment.view_m else LEAST_TABLE_M
        spans = [max(high - low, least_m) for low, high in zip(lows, highs, strict=True)]
        self._scale = min((WIDTH - 2 * MARGIN) / spans[0], (HEIGHT - 2 * MARGIN) / spans[1])
        self._middle = tuple((low + high) / 2 for low, high in zip(lows, highs, strict=True))
        self._taken: list[tuple[float, float, float, float]] = []

    def svg(self) -> str:
        """Return what is inside the picture's element."""
        return ''.join(
            (self._grid(), self._view(), self._path(), self._way(), self._marks(), self._robot(),
             self._names())
        )  # fmt: skip

    def _at(self, place: Place) -> tuple[float, float]:
        x = WIDTH / 2 + (place[0] - self._middle[0]) * self._scale
        y = HEIGHT / 2 - (place[1] - self._middle[1]) * self._scale
        return round(x, 1), round(y, 1)

    def _grid(self) -> str:
        """Return lines at every whole metre of the room; farther apart where they were dense."""
        step_m = max(1.0, 2.0 ** math.ceil(math.log2(12 / self._scale)))
        lines = []
        for axis, size in ((0, WIDTH), (1, HEIGHT)):
            half_m = size / 2 / self._scale
            first = math.ceil((self._middle[axis] - half_m) / step_m)
            last = math.floor((self._middle[axis] + half_m) / step_m)
            for number in range(first, last + 1):
                x, y = self._at((number * step_m, number * step_m))
                lines.append(f'M0 {y}H{WIDTH}' if axis else f'M{x} 0V{HEIGHT}')
        return f'<path class="metre" d="{"".join(lines)}"/>'

    def _view(self) -> str:
        moment = self._moment
        if not moment.view_m:
            return ''
        radius = round(moment.view_m * self._scale, 1)
        (x, y), heading_rad = self._at(moment.pose.place_m), moment.pose.heading_rad
        ends = [
            (
                round(x + radius * math.cos(heading_rad + side * moment.view_rad / 2), 1),
                round(y - radius * math.sin(heading_rad + side * moment.view_rad / 2), 1),
            )
            for side in (-1, 1)
        ]
        (from_x, from_y), (to_x, to_y) = ends
        return (
            f'<path class="view" d="M{x} {y}L{from_x} {from_y}A{radius} {radius} 0 0 0 '
            f'{to_x} {to_y}Z"/>'
        )

    def _path(self) -> str:
        points = ' '.join('{},{}'.format(*self._at(place)) for place in self._moment.path_m)
        return f'<polyline class="path" points="{points}"/>'

    def _way(self) -> str:
        way = self._moment.way
        if way is None:
            return ''
        now, start, end = map(self._at, (way.at(self._moment.pose.at_s), way.start_m, way.end_m))
        return (
            f'<path class="ahead" d="M{now[0]} {now[1]}L{end[0]} {end[1]}"/>'
            f'<path class="way" d="M{start[0]} {start[1]}L{now[0]} {now[1]}"/>'
            f'<circle class="danger" cx="{now[0]}" cy="{now[1]}" r="7"/>'
        )

    def _marks(self) -> str:
        parts = []
        for name, place in self._things.items():
            x, y = self._at(place)
            kind = 'target' if name in self._moment.targets else 'thing'
            parts.append(f'<circle class="{kind}" cx="{x}" cy="{y}" r="5"/>')
        for one in self._moment.mishaps:
            x, y = self._at(one.place_m)
            cross = f'M{x - 6} {y - 6}l12 12m0 -12l-12 12'
            ring = f'M{x - 9} {y}a9 9 0 1 0 18 0a9 9 0 1 0 -18 0'
            parts.append(f'<path class="mishap" d="{ring if one.event == "near" else cross}"/>')
        return ''.join(parts)

    def _robot(self) -> str:
        x, y = self._at(self._moment.pose.place_m)
        degrees = round(-math.degrees(self._moment.pose.heading_rad), 1)
        return (
            '<path class="robot" d="M11 0L-7 7L-3 0L-7 -7Z" '
            f'transform="translate({x} {y}) rotate({degrees})"/>'
        )

    def _names(self) -> str:
        """Return the names, what matters first: where two would lie on each other, one moves."""
        moment, way = self._moment, self._moment.way
        x, y = self._at(moment.pose.place_m)
        self._taken = [(x - 10, y - 10, x + 10, y + 10)]
        for place in self._things.values():
            x, y = self._at(place)
            self._taken.append((x - 5, y - 5, x + 5, y + 5))
        names = [] if way is None else [(way.name, way.at(moment.pose.at_s), 'danger')]
        names.append((moment.robot, moment.pose.place_m, 'robot'))
        things = sorted(self._things.items(), key=lambda one: one[0] not in moment.targets)
        names += [
            (name, place, 'target' if name in moment.targets else 'thing') for name, place in things
        ]
        return ''.join(self._name(*one) for one in names)

    def _name(self, name: str, place: Place, kind: str) -> str:
        name = name[:MOST_NAME]
        x, y = self._at(place)
        half = LETTER * len(name) / 2
        spots = [
            (x + 10 + half, y), (x - 10 - half, y), (x, y - 15), (x, y + 15),
            (x + 8 + half, y - 12), (x - 8 - half, y - 12), (x + 8 + half, y + 12),
            (x - 8 - half, y + 12),
        ]  # fmt: skip
        boxes = [
            (at_x - half, at_y - LINE / 2, at_x + half, at_y + LINE / 2) for at_x, at_y in spots
        ]
        box = min(boxes, key=self._overlap)
        self._taken.append(box)
        middle, base = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2 + 4
        return f'<text class="{kind}" x="{middle:.1f}" y="{base:.1f}">{e(name)}</text>'

    def _overlap(self, box: tuple[float, float, float, float]) -> float:
        """Return how much of a box is taken or outside of the picture."""
        left, top, right, bottom = box
        area = (right - left) * (bottom - top)
        inside = _shared(box, (2, 2, WIDTH - 2, HEIGHT - 2))
        return 2 * (area - inside) + sum(_shared(box, other) for other in self._taken)


def _shared(
    one: tuple[float, float, float, float], other: tuple[float, float, float, float]
) -> float:
    """Return the area that two boxes share."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return max(wide, 0.0) * max(high, 0.0)
