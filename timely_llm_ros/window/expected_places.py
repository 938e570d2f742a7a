"""Where robots are by their plans, for those of which nobody publishes a pose.

Each call of a skill leads somewhere, as the skill's ``motion`` says. What comes out is for people
to look at, and nothing is decided by it: nobody measured where the robot is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import yaml

from timely_llm_ros.errors import TimelyError
from timely_llm_ros.execution import Whereabouts, way_of
from timely_llm_ros.skills import Approach, Call, Climb, Move, Scene, SceneObject, Still, parse
from timely_llm_ros.skills.loading import find_skill_set, parse_skill_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timely_llm_ros.skills import SkillSet
    from timely_llm_ros.window.fleet_events import Event

MOST_ROBOTS = 1000

AT_START = Whereabouts()

_GRASPS = ('pick', 'grasp', 'gripper')
"""A robot is an arm where a skill's name has one of these, and no motion is told."""


@dataclass(slots=True)
class _Robot:
    """What is known of one robot's place, and of the plan that leads it on."""

    skill_set: SkillSet | None = None
    place: Whereabouts = AT_START
    segment_place: Whereabouts = AT_START
    """Where its segment in hand began."""
    scene: Scene = field(default_factory=Scene)
    doing: tuple[Any, ...] = ()
    """Plan, segment and call in hand."""


class ExpectedPlaces:
    """Follows robots by their events; :meth:`take` returns what they add.

    That is ``body``: what kind of thing a robot is, ``flyer``, ``rover``, ``arm`` or ``other``; and
    ``way``: it moves ``from`` a place ``to`` another, each x, y, z (m) and heading (rad) from its
    start, which takes about ``lasts_s``; an arm ``reaches`` for a place.
    """

    def __init__(self) -> None:
        self._robots: dict[str, _Robot] = {}
        self._skill_sets: dict[str, SkillSet | None] = {}

    def learn(self, catalogue: str) -> None:
        """Take a planner's ``skill_catalogue``; one that cannot be read changes nothing."""
        try:
            for name, text in yaml.safe_load(catalogue)['skill_sets'].items():
                self._skill_sets[str(name)] = parse_skill_set(text, str(name))
        except (yaml.YAMLError, TimelyError, TypeError, KeyError, AttributeError):
            return
        for robot in self._robots.values():
            robot.skill_set = None

    def take(self, event: Event) -> list[Event]:
        """Take a ``task`` or ``robot`` event; return the events that follow of it."""
        name = event.get('robot')
        if name is None or (name not in self._robots and len(self._robots) >= MOST_ROBOTS):
            return []
        robot = self._robots.setdefault(name, _Robot())
        found: list[Event] = []
        if event.get('skill_set') and robot.skill_set is None:
            robot.skill_set = self._find(event['skill_set'])
            found.append({'event': 'body', 'robot': name, 'is': _body(robot.skill_set)})
        if robot.skill_set is None:
            return found
        if event['event'] == 'robot':
            found += self._follow(name, robot, event)
        elif event.get('what') == 'accepted':
            robot.scene = _scene(event['scene'])
        elif event.get('what') == 'segment_ended':
            found += self._correct(name, robot, event)
        return found

    def _find(self, name: str) -> SkillSet | None:
        if name not in self._skill_sets and len(self._skill_sets) < MOST_ROBOTS:
            try:
                # A name only: a message of a stranger must not have files opened.
                self._skill_sets[name] = None if '/' in name else find_skill_set(name)
            except TimelyError:
                self._skill_sets[name] = None
        return self._skill_sets.get(name)

    def _follow(self, name: str, robot: _Robot, event: Event) -> Iterator[Event]:
        doing = (event['plan'], event['segment'], event['call'])
        if event['phase'] != 'executing' or not event['call'] or doing == robot.doing:
            return
        if doing[:2] != robot.doing[:2]:
            robot.segment_place = robot.place
        robot.doing = doing
        yield from self._go(name, robot, event['call'])

    def _correct(self, name: str, robot: _Robot, event: Event) -> Iterator[Event]:
        """Go to where the calls of a segment led: equal ones in a row look like one."""
        before, robot.place = robot.place, robot.segment_place
        for call in event['calls']:
            list(self._go(name, robot, call))
        robot.segment_place, robot.doing = robot.place, ()
        if robot.place != before:
            yield _way(name, before, robot.place, 0.5)

    def _go(self, name: str, robot: _Robot, text: str) -> Iterator[Event]:
        """Make a call's way; nothing comes of one that cannot be read."""
        skill_set = robot.skill_set
        if skill_set is None:
            return
        try:
            call = parse(f'{text};', skill_set, robot.scene)[0]
        except TimelyError:
            return
        if not isinstance(call, Call):
            return
        skill = skill_set.skills[call.skill]
        lasts_s = skill.duration.expected_s(call, robot.scene)
        if skill.motion is None:
            reached = _named(call, robot.scene)
            at = [reached.x_m, reached.y_m, reached.z_m] if reached is not None else None
            yield {'event': 'way', 'robot': name, 'reaches': at, 'lasts_s': round(lasts_s, 3)}
        elif not isinstance(skill.motion, Still):
            before = robot.place
            end = way_of(skill.motion, call, robot.scene, before).end
            robot.place = _point(before, end)
            yield _way(name, before, robot.place, lasts_s)


def _point(start: Whereabouts, end: Whereabouts) -> Whereabouts:
    """Return one place out of all that a way may end at: short of what it approaches."""
    along_x, along_y = end.x_m - start.x_m, end.y_m - start.y_m
    distance_m = math.hypot(along_x, along_y)
    share = max(0.0, 1 - end.radius_m / distance_m) if distance_m > 0 else 0.0
    height_m = (end.low_m + end.high_m) / 2
    heading_rad = end.heading_rad
    if heading_rad is None:
        heading_rad = math.atan2(along_y, along_x) if distance_m > 0 else start.heading_rad
    x_m, y_m = start.x_m + share * along_x, start.y_m + share * along_y
    return replace(
        end, x_m=x_m, y_m=y_m, radius_m=0.0, low_m=height_m, high_m=height_m,
        heading_rad=heading_rad,
    )  # fmt: skip


def _way(name: str, start: Whereabouts, end: Whereabouts, lasts_s: float) -> Event:
    places = (
        [round(value, 3) for value in (one.x_m, one.y_m, one.low_m, one.heading_rad or 0.0)]
        for one in (start, end)
    )
    way = dict(zip(('from', 'to'), places, strict=True))
    return {'event': 'way', 'robot': name, **way, 'lasts_s': round(lasts_s, 3)}


def _named(call: Call, scene: Scene) -> SceneObject | None:
    """Return the last object that a call names: where a thing goes comes after the thing."""
    found = [scene.get(str(one.value)) for one in call.arguments]
    return next((item for item in reversed(found) if item is not None), None)


def _scene(objects: list[list[Any]]) -> Scene:
    known: dict[str, SceneObject] = {}
    for name, kind, _, _, _, x_m, y_m, z_m, _ in objects:
        try:
            known[name] = SceneObject(name, kind, x_m=x_m, y_m=y_m, z_m=z_m)
        except TimelyError:
            continue
    return Scene(tuple(known.values()))


def _body(skill_set: SkillSet | None) -> str:
    if skill_set is None or skill_set.free_text is not None:
        return 'other'
    motions = [skill.motion for skill in skill_set.skills.values()]
    if any(isinstance(motion, Climb) for motion in motions):
        return 'flyer'
    if any(isinstance(motion, Move | Approach) for motion in motions):
        return 'rover'
    return 'arm' if any(word in name for name in skill_set.skills for word in _GRASPS) else 'other'
