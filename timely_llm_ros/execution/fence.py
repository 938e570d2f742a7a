"""Keeps one robot within its envelope: looks at every call before the driver sees it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from timely_llm_ros.errors import ConfigurationError, EnvelopeError
from timely_llm_ros.execution.driver import BatteryDriver, LocatingDriver, PacedDriver
from timely_llm_ros.execution.flat_geometry import line_to_point_m, line_to_rectangle_m
from timely_llm_ros.execution.whereabouts import Whereabouts, amount_of, way_of
from timely_llm_ros.skills import Approach, Land, Move, Still

if TYPE_CHECKING:
    from timely_llm_ros.execution.driver import Driver
    from timely_llm_ros.execution.envelope import Envelope
    from timely_llm_ros.execution.whereabouts import Way
    from timely_llm_ros.skills import Call, Motion, Scene, SkillSet

NEAR_M = 1e-6
"""Rules are kept to within this (m), which is what adding up numbers may be off."""


class Fence:
    """Knows where one robot may be and lets no call pass that would break a rule of its envelope.

    A robot that is outside of its workspace, too high or too near to somebody already may make
    calls that take it no further that way, but it does not take off. One that is in a volume where
    it must not be makes no call that moves it.

    Args:
        envelope: The rules.
        skill_set: Every skill has a motion.
        driver: The robot's. Where it says where the robot is, that counts; between, and where it
            does not, the motions of the calls do.

    Raises:
        ConfigurationError: A skill has no motion, or nobody says what a rule asks for.
    """

    def __init__(self, envelope: Envelope, skill_set: SkillSet, driver: Driver) -> None:
        self._rules = envelope
        # Asked once: whether an object has a protocol takes longer than a check.
        self._locating = driver if isinstance(driver, LocatingDriver) else None
        self._charged = driver if isinstance(driver, BatteryDriver) else None
        self._paced = driver if isinstance(driver, PacedDriver) else None
        self._motions: dict[str, Motion] = {}
        for name, skill in skill_set.skills.items():
            if skill.motion is None:
                raise ConfigurationError(
                    f'envelope: skill {name!r} of skill set {skill_set.name!r}: expected a motion'
                )
            self._motions[name] = skill.motion
            if envelope.maximum_speed_m_s is not None and self._is_unpaced(skill.motion):
                raise ConfigurationError(
                    f'envelope: maximum_speed_m_s: skill {name!r} of skill set {skill_set.name!r}: '
                    'expected its motion or the driver to say how fast it is'
                )
        if envelope.minimum_battery_percent is not None and self._charged is None:
            raise ConfigurationError(
                'envelope: minimum_battery_percent: expected a driver that tells its charge'
            )
        if self._locating is not None and envelope.start != Whereabouts():
            raise ConfigurationError('envelope: start: the driver says where the robot is')
        self._no_go = tuple(envelope.no_go.items())
        self._at = self._after = envelope.start
        self._scene: Scene | None = None
        self._people: tuple[tuple[str, float, float], ...] = ()

    def _is_unpaced(self, motion: Motion) -> bool:
        return isinstance(motion, Move | Approach) and motion.speed is None and self._paced is None

    @property
    def at(self) -> Whereabouts:
        """Where the robot may be."""
        if self._locating is not None and (pose := self._locating.pose) is not None:
            x_m, y_m, z_m, heading_rad = pose
            if math.isfinite(x_m) and math.isfinite(y_m) and math.isfinite(z_m):
                heading = heading_rad if math.isfinite(heading_rad) else None
                return Whereabouts(x_m, y_m, 0.0, z_m, z_m, heading)
        return self._at

    def check(self, call: Call, scene: Scene) -> None:
        """Look at a call; until :meth:`done`, the robot may be anywhere on its way.

        Raises:
            EnvelopeError: It would break a rule, and must not be made.
        """
        motion, at = self._motions[call.skill], self.at
        self._at = self._after = at
        if isinstance(motion, Still):
            return
        if not isinstance(motion, Land):
            self._check_battery(call)
        if isinstance(motion, Move | Approach):
            self._check_speed(motion, call)
        way = way_of(motion, call, scene, at)
        if way.travels or way.rises or way.departs:
            self._check_workspace(way, call)
            self._check_no_go(way, call)
            if way.travels or way.departs:
                self._check_people(way, call, scene)
        self._at, self._after = way.anywhere, way.end

    def done(self) -> None:
        """Note that the call came to its end."""
        self._at = self._after

    def made_safe(self) -> None:
        """Note that the robot takes its safe action, which may bring it to the ground."""
        at = self._at
        self._at = replace(at, low_m=min(0.0, at.low_m), high_m=max(0.0, at.high_m))

    def _check_battery(self, call: Call) -> None:
        least = self._rules.minimum_battery_percent
        if least is None or self._charged is None:
            return
        percent = self._charged.battery_percent
        if percent is None or not percent >= least:
            told = 'unknown' if percent is None else f'{percent:g} %'
            _refuse('battery', call, f'the charge is {told}: expected at least {least:g} %')

    def _check_speed(self, motion: Move | Approach, call: Call) -> None:
        most = self._rules.maximum_speed_m_s
        if most is None:
            return
        if isinstance(motion.speed, str):
            speed: float | None = abs(amount_of(motion.speed, call))
        elif self._paced is not None:
            speed = self._paced.speed_m_s
        else:
            speed = motion.speed
        if speed is None or not speed <= most + NEAR_M:
            _refuse('speed', call, f'{speed} m/s: expected at most {most:g} m/s')

    def _check_workspace(self, way: Way, call: Call) -> None:
        """Look at the sides towards which it may go; on its way along an axis it never turns."""
        box, start, end = self._rules.workspace, way.start, way.end
        margin_m = self._rules.margin_m
        if box is not None and (way.travels or way.departs):
            for axis, from_m, to_m, low_m, high_m in (
                ('x', start.x_m, end.x_m, box.low[0], box.high[0]),
                ('y', start.y_m, end.y_m, box.low[1], box.high[1]),
            ):
                least_m, most_m = to_m - end.radius_m, to_m + end.radius_m
                goes_up = most_m > from_m - start.radius_m + NEAR_M or way.departs
                if goes_up and not most_m + margin_m <= high_m + NEAR_M:
                    _refuse('workspace', call, f'{axis} {most_m:.2f} m: {_most(high_m, margin_m)}')
                goes_down = least_m < from_m + start.radius_m - NEAR_M or way.departs
                if goes_down and not least_m - margin_m >= low_m - NEAR_M:
                    _refuse('workspace', call, f'{axis} {least_m:.2f} m: {_least(low_m, margin_m)}')
        if end.high_m > start.low_m + NEAR_M and (way.rises or way.departs):
            self._check_top(way, call)
        sinks = end.low_m < start.high_m - NEAR_M and way.rises and not way.to_ground
        if box is not None and sinks and not end.low_m - margin_m >= box.low[2] - NEAR_M:
            _refuse('workspace', call, f'z {end.low_m:.2f} m: {_least(box.low[2], margin_m)}')

    def _check_top(self, way: Way, call: Call) -> None:
        box, most_m = self._rules.workspace, way.end.high_m
        margin_m, highest_m = self._rules.margin_m, self._rules.maximum_height_m
        if box is not None and not most_m + margin_m <= box.high[2] + NEAR_M:
            _refuse('workspace', call, f'z {most_m:.2f} m: {_most(box.high[2], margin_m)}')
        if highest_m is not None and not most_m + margin_m <= highest_m + NEAR_M:
            _refuse('height', call, f'{most_m:.2f} m: {_most(highest_m, margin_m)}')

    def _check_no_go(self, way: Way, call: Call) -> None:
        margin_m, start, end = self._rules.margin_m, way.start, way.end
        reach_m = way.radius_m + margin_m
        low_m, high_m = way.low_m - margin_m, way.high_m + margin_m
        west_m, east_m = min(start.x_m, end.x_m) - reach_m, max(start.x_m, end.x_m) + reach_m
        south_m, north_m = min(start.y_m, end.y_m) - reach_m, max(start.y_m, end.y_m) + reach_m
        for name, box in self._no_go:
            (x_low, y_low, z_low), (x_high, y_high, z_high) = box.low, box.high
            if (
                high_m < z_low
                or low_m > z_high
                or east_m < x_low
                or west_m > x_high
                or north_m < y_low
                or south_m > y_high
            ):
                continue
            near_m = line_to_rectangle_m(
                (start.x_m, start.y_m), (end.x_m, end.y_m), (x_low, y_low), (x_high, y_high)
            )
            if not near_m > reach_m:
                _refuse(f'no_go {name}', call, 'its way leads in: expected it to stay out')

    def _check_people(self, way: Way, call: Call, scene: Scene) -> None:
        least_m = self._rules.people_distance_m
        if least_m is None:
            return
        if scene is not self._scene:
            kinds = self._rules.people_kinds
            self._scene, self._people = (
                scene,
                tuple(
                    (item.name, item.x_m, item.y_m) for item in scene.objects if item.kind in kinds
                ),
            )
        start, end, margin_m = way.start, way.end, self._rules.margin_m
        along_x, along_y = end.x_m - start.x_m, end.y_m - start.y_m
        along_m = math.hypot(along_x, along_y)
        unsure_m = start.radius_m + margin_m
        for name, x_m, y_m in self._people:
            near_m = line_to_point_m((start.x_m, start.y_m), (along_x, along_y), (x_m, y_m))
            if near_m - way.radius_m - margin_m >= least_m - NEAR_M:
                continue
            # Wherever it may be, it only goes away from somebody who is behind it.
            away_m = (start.x_m - x_m) * along_x + (start.y_m - y_m) * along_y
            if way.is_parallel and not way.departs and away_m >= unsure_m * along_m:
                continue
            near_m = max(0.0, near_m - way.radius_m - margin_m)
            _refuse('people', call, f'{near_m:.2f} m to {name}: expected at least {least_m:g} m')


def _refuse(rule: str, call: Call, problem: str) -> NoReturn:
    raise EnvelopeError(rule, f'{call.text}: rule {rule!r}: {problem}')


def _most(limit_m: float, margin_m: float) -> str:
    return f'expected at most {limit_m:g} m' + (f', less {margin_m:g} m' if margin_m else '')


def _least(limit_m: float, margin_m: float) -> str:
    return f'expected at least {limit_m:g} m' + (f', and {margin_m:g} m' if margin_m else '')
