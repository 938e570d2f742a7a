"""What a picture of a world is drawn from: how a robot flew in a task, and what was around it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lrtrace.storage import FOREIGN
from lrtrace.world_verdicts import MOST_LETTERS, STRING, TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lrtrace.storage import Trace, TraceMessage

POSE = 'geometry_msgs/msg/PoseStamped'

MOST_MOMENTS, MOST_POSES, MOST_THINGS, MOST_MARKS = 1000, 3000, 60, 20
"""No more is kept: moments of a trace, and of a task poses, things and mishaps."""

MOST_OPEN = 200
"""No more tasks are followed at once."""

FARTHEST_M = 1e5
"""A place farther from the origin of the room (m) is none."""

STEP_M = 0.05
"""Points of a path nearer to each other than this (m) are drawn as one."""

Place = tuple[float, float]
"""x and y in the room (m)."""


class Pose(NamedTuple):
    """Where a robot was at a time since the run began (s), and its heading (rad)."""

    at_s: float
    place_m: Place
    heading_rad: float


class Mishap(NamedTuple):
    """A ``wreck``, a ``hit`` or ``near``, with whom, and where the robot was."""

    event: str
    what: str
    at_s: float
    place_m: Place


class Way(NamedTuple):
    """The way of somebody who comes towards a robot."""

    name: str
    began_s: float
    start_m: Place
    end_m: Place
    lasts_s: float

    def at(self, now_s: float) -> Place:
        """Return where that one is at a time since the run began (s)."""
        share = min(max((now_s - self.began_s) / self.lasts_s, 0.0), 1.0)
        (x_m, y_m), (to_x_m, to_y_m) = self.start_m, self.end_m
        return x_m + share * (to_x_m - x_m), y_m + share * (to_y_m - y_m)


@dataclass(frozen=True, slots=True)
class WorldMoment:
    """A task in a world at the moment that matters.

    That is when whoever came was nearest; without one, the first mishap; without one, the verdict.
    """

    robot: str
    kind: str
    succeeded: bool
    why: str
    pose: Pose
    """Of the robot at that moment."""

    path_m: tuple[Place, ...]
    """Where the robot had been in this task until then."""

    things: dict[str, Place]
    """What stands where, by name."""

    plan_id: str = ''
    """Empty where it is not known."""

    targets: tuple[str, ...] = ()
    mishaps: tuple[Mishap, ...] = ()
    way: Way | None = None
    view_rad: float = 0.0
    view_m: float = 0.0
    """Width and range of what the robot sees; 0 where that is not known."""


@dataclass(slots=True)
class _Watch:
    """A task that has begun."""

    event: dict[str, Any]
    poses: list[Pose] = field(default_factory=list)
    mishaps: list[Mishap] = field(default_factory=list)
    way: Way | None = None


def read_moments(trace: Trace, start_ns: int) -> list[WorldMoment]:
    """Return a moment for each task that a world judged and whose robot told its pose.

    Args:
        trace: With the topic ``world_events``, and ``pose`` below each robot's name.
        start_ns: When the run began (ns since the epoch).

    Raises:
        TraceError: The trace cannot be read.
    """
    reading = _Reading(start_ns)
    for message in trace.messages(types=(STRING, POSE)):
        try:
            reading.take(message)
        except FOREIGN:
            # What is named like these types and is none of them.
            continue
        if len(reading.moments) >= MOST_MOMENTS:
            break
    return reading.moments


class _Reading:
    def __init__(self, start_ns: int) -> None:
        self.moments: list[WorldMoment] = []
        self._start_ns = start_ns
        self._last: dict[str, Pose] = {}
        self._open: dict[tuple[str, str], _Watch] = {}
        """By robot and task."""

    def take(self, message: TraceMessage) -> None:
        at_s = (message.log_ns - self._start_ns) / 1e9
        if message.message_type == POSE:
            if message.topic.endswith('/pose'):
                self._take_pose(message.topic.split('/')[-2], at_s, message.value.pose)
        elif message.topic.endswith(TOPIC):
            try:
                event = json.loads(message.value.data)
            except (ValueError, RecursionError):
                return
            if isinstance(event, dict):
                self._take_event(event, at_s)

    def _take_pose(self, robot: str, at_s: float, pose: Any) -> None:
        place = _place((pose.position.x, pose.position.y))
        turned = pose.orientation
        sine = 2 * (turned.w * turned.z + turned.x * turned.y)
        heading_rad = math.atan2(sine, 1 - 2 * (turned.y**2 + turned.z**2))
        if place is None or not math.isfinite(heading_rad):
            return
        found = Pose(at_s, place, heading_rad)
        if robot in self._last or len(self._last) < MOST_OPEN:
            self._last[robot] = found
        for watch in self._watches(robot):
            if len(watch.poses) < MOST_POSES:
                watch.poses.append(found)

    def _take_event(self, event: dict[str, Any], at_s: float) -> None:
        robot, what = str(event.get('robot', '')), str(event.get('what', ''))[:MOST_LETTERS]
        last = self._last.get(robot)
        if last is None:
            return
        match event.get('event'):
            case 'task' if len(self._open) < MOST_OPEN:
                self._open[robot, what] = _Watch(event, [last])
            case 'danger':
                way = _way(what, at_s, event.get('way'))
                for watch in list(self._watches(robot))[-1:]:
                    watch.way = way
            case 'wreck' | 'hit' | 'near' as mishap:
                for watch in self._watches(robot):
                    if len(watch.mishaps) < MOST_MARKS:
                        watch.mishaps.append(Mishap(mishap, what, at_s, last.place_m))
            case 'verdict':
                closed = self._open.pop((robot, what), None)
                if closed is not None:
                    self.moments.append(_moment(robot, closed, event, at_s))

    def _watches(self, robot: str) -> list[_Watch]:
        return [watch for (other, _), watch in self._open.items() if other == robot]


def _moment(robot: str, watch: _Watch, verdict: dict[str, Any], at_s: float) -> WorldMoment:
    word, _, why = str(verdict.get('detail', '')).partition(': ')
    way = watch.way
    if way is not None:
        coming = [pose for pose in watch.poses if pose.at_s >= way.began_s] or watch.poses[-1:]
        pose = min(coming, key=lambda one: math.dist(one.place_m, way.at(one.at_s)))
    else:
        until_s = watch.mishaps[0].at_s if watch.mishaps else at_s
        # The first one is from before the task, unless the trace's clock was set back.
        pose = max(watch.poses[:1] + [one for one in watch.poses if one.at_s <= until_s])
    things, view = watch.event.get('things'), _numbers(watch.event.get('view'), 2)
    places = {} if not isinstance(things, dict) else things
    found = {str(name): _place(value) for name, value in list(places.items())[:MOST_THINGS]}
    targets = watch.event.get('targets')
    return WorldMoment(
        robot,
        str(watch.event.get('detail', ''))[:MOST_LETTERS],
        word == 'succeeded',
        why[:MOST_LETTERS],
        pose,
        _thinned([one.place_m for one in watch.poses if one.at_s <= pose.at_s]),
        {name: place for name, place in found.items() if place is not None},
        str(verdict.get('plan', '')),
        tuple(map(str, targets[:MOST_THINGS])) if isinstance(targets, list) else (),
        tuple(one for one in watch.mishaps if one.at_s <= pose.at_s + 0.1),
        way,
        *(view if view is not None and 0 < view[0] < math.pi and view[1] > 0 else (0.0, 0.0)),
    )


def _thinned(path_m: Sequence[Place]) -> tuple[Place, ...]:
    found = list(path_m[:1])
    for place in path_m[1:]:
        if math.dist(place, found[-1]) >= STEP_M:
            found.append(place)
    return tuple(found)


def _way(name: str, began_s: float, value: object) -> Way | None:
    numbers = _numbers(value, 5)
    if numbers is None or numbers[4] <= 0:
        return None
    x_m, y_m, to_x_m, to_y_m, lasts_s = numbers
    return Way(name, began_s, (x_m, y_m), (to_x_m, to_y_m), lasts_s)


def _place(value: object) -> Place | None:
    numbers = _numbers(value, 2)
    return None if numbers is None else (numbers[0], numbers[1])


def _numbers(value: object, count: int) -> tuple[float, ...] | None:
    """Return that many numbers; None for anything else, whatever a trace holds."""
    if not isinstance(value, (list, tuple)) or len(value) != count:
        return None
    if not all(isinstance(one, (int, float)) and abs(one) <= FARTHEST_M for one in value):
        return None
    return tuple(float(one) for one in value)


def worst_first(moments: Sequence[WorldMoment], most: int) -> list[WorldMoment]:
    """Return so many moments in the order of time: wrecks, then failures, then what was touched.

    Where there is room left, the kinds of task that are not shown yet come before those in which
    somebody came towards a robot, then those in which a person was near, and then all others.
    """
    shown: set[str] = set()
    ranked = []
    for moment in moments:
        events = {one.event for one in moment.mishaps}
        ranks = (
            'wreck' in events,
            not moment.succeeded,
            'hit' in events,
            moment.kind not in shown,
            moment.way is not None,
            'near' in events,
            True,
        )
        shown.add(moment.kind)
        ranked.append((ranks.index(True), moment))
    ranked.sort(key=lambda one: one[0])
    return sorted((moment for _, moment in ranked[:most]), key=lambda one: one.pose.at_s)
