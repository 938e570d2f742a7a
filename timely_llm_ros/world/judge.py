"""Whether a task succeeded, by the state of the world and not by what a robot says.

A task that asks for something to be found succeeds if each of its targets was in view, unhidden,
from no farther beside it than :data:`VIEW_M`: an instruction may ask a drone to climb, so the
height does not count. A task to get out of somebody's way succeeds if the drone was never nearer to
the middle of it than :data:`CLEAR_M`, until it had come. No task succeeds with a wreck. What an arm
does is judged by its ``Table``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.sample_tasks import CONTAINERS, KINDS

if TYPE_CHECKING:
    from timely_llm_ros.sample_tasks import TaskSample

VIEW_M = 1.5
"""A thing that is found was in view from no farther beside it than this (m)."""

CLEAR_M = 0.5
"""A drone that got out of the way was never nearer than this (m)."""

_FLIGHT = re.compile(r'goto\((\w+)\)')
_PLACED = re.compile(r'pick\((\w+)\);place\((\w+)\)|sort_into\((\w+),(\w+)\)')
_WIPED = re.compile(r'wipe\((\w+)\)')


@dataclass(frozen=True, slots=True)
class WorldTask:
    """A task as the world sees it.

    Raises:
        ConfigurationError: What is stacked or stored is no pair of names.

    Attributes:
        key: Its name.
        robot: Who is to do it.
        kind: Name of its kind.
        targets: Names of what is to be seen from nearby.
        danger: Name of what comes towards the drone, empty for none.
        danger_bearing_rad: Where that comes from, counter-clockwise from the drone's heading.
        stacked: Names of blocks, each with the one that it is to stand on.
        stored: Names of things, each with the box that it is to lie in.
        wiped: Names of the places to wipe.
    """

    key: str
    robot: str
    kind: str
    targets: tuple[str, ...] = ()
    danger: str = ''
    danger_bearing_rad: float = 0.0
    stacked: tuple[tuple[str, str], ...] = ()
    stored: tuple[tuple[str, str], ...] = ()
    wiped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for pair in (*self.stacked, *self.stored):
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ConfigurationError(f'task {self.key!r}: {pair!r}: expected two names')

    @property
    def things(self) -> tuple[str, ...]:
        """Names of all things that it is about."""
        moved = (name for pair in (*self.stacked, *self.stored) for name in pair)
        named = (*self.targets, self.danger, *moved, *self.wiped)
        return tuple(dict.fromkeys(name for name in named if name))

    @classmethod
    def of(cls, key: str, robot: str, sample: TaskSample) -> WorldTask:
        """Return what the world is to watch of a sample task."""
        item = sample.scene.get(sample.danger) if sample.danger else None
        return cls(
            key,
            robot,
            KINDS[sample.kind].name,
            () if sample.urgent else tuple(dict.fromkeys(_FLIGHT.findall(sample.plan))),
            sample.danger,
            0.0 if item is None else math.atan2(item.y_m, item.x_m),
            *_placed(sample),
            wiped=tuple(_WIPED.findall(sample.plan)),
        )


def _placed(
    sample: TaskSample,
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Return what a plan stacks on what, and what it puts into what."""
    pairs = [
        (first or third, second or fourth)
        for first, second, third, fourth in _PLACED.findall(sample.plan)
    ]
    boxes = {item.name for item in sample.scene.objects if item.kind in CONTAINERS}
    return (
        tuple(pair for pair in pairs if pair[1] not in boxes),
        tuple(pair for pair in pairs if pair[1] in boxes),
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a task ended, by the world.

    Attributes:
        key: The task's.
        robot: Who did it.
        succeeded: Whether its goal was reached.
        why: What decided, in words.
        hits: What the robot touched meanwhile that it should not.
    """

    key: str
    robot: str
    succeeded: bool
    why: str
    hits: tuple[str, ...] = ()


@dataclass(slots=True)
class TaskWatch:
    """What was seen of a task so far.

    Attributes:
        ended_s: When it ended (s, in the world); None while it has not.
        plan: Id of its plan.
        pictures: How many were taken.
        hits: What the robot touched that it should not.
    """

    task: WorldTask
    ended_s: float | None = None
    plan: str = ''
    pictures: int = 0
    hits: list[str] = field(default_factory=list)

    def verdict(self) -> Verdict:
        """Return how the task ended."""
        succeeded, why = self.decide()
        task = self.task
        return Verdict(task.key, task.robot, succeeded, why, tuple(self.hits))

    def decide(self) -> tuple[bool, str]:
        """Return whether it succeeded, and what decided."""
        raise NotImplementedError


@dataclass(slots=True)
class FlightWatch(TaskWatch):
    """What was seen of a drone's task so far."""

    wrecked: bool = False
    _nearest_view_m: dict[str, float] = field(default_factory=dict)
    _nearest_danger_m: float = math.inf

    def note_seen(self, name: str, beside_m: float) -> None:
        """Note that something was in view from a distance beside it (m)."""
        before_m = self._nearest_view_m.get(name, math.inf)
        self._nearest_view_m[name] = min(before_m, beside_m)

    def note_danger(self, distance_m: float) -> None:
        """Note how far the danger is (m)."""
        self._nearest_danger_m = min(self._nearest_danger_m, distance_m)

    def decide(self) -> tuple[bool, str]:
        """Return whether it succeeded, and what decided."""
        if self.wrecked:
            return False, 'the drone turned over'
        if self.task.danger:
            nearest_m = self._nearest_danger_m
            text = f'{self.task.danger} came as near as {nearest_m:.2f} m'
            return nearest_m >= CLEAR_M, text
        for name in self.task.targets:
            view_m = self._nearest_view_m.get(name, math.inf)
            if view_m > VIEW_M:
                seen = 'was never in view' if view_m == math.inf else f'in view from {view_m:.2f} m'
                return False, f'{name} {seen}'
        names = ', '.join(self.task.targets) or 'nothing'
        return bool(self.task.targets), f'{names} in view, pictures: {self.pictures}'
