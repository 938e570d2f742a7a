"""Flies one Tello within its limits and keeps track of where it is.

What the aircraft answers counts only where its state agrees: a move is done when it was seen to be
flown and to have ended, a landing when the motors are off.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from typing import TYPE_CHECKING

from timely_llm_ros.drivers.tello.units import move_legs_cm, speed_cm_s, turn_legs_deg
from timely_llm_ros.errors import DriverTimeoutError, SkillFailedError
from timely_llm_ros.execution import Pose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from timely_llm_ros.drivers.tello.options import TelloOptions
    from timely_llm_ros.drivers.tello.wire import TelloWire

MIN_HEIGHT_M = 0.2
"""No move down ends lower than this above the place of take-off (m)."""

MIN_TURN_RAD = math.radians(3)
"""The driver leaves out smaller turns towards an object (rad)."""

STANDOFF_M = 0.5
"""How far from an object the aircraft stops (m)."""

STAY_PERIOD_S = 0.5
"""How often a waiting aircraft is told to stay (s): after 15 s of silence it lands by itself."""

TELL_AGAIN_S = 0.1
"""How often an aircraft is told to halt until it has (s)."""

LAND_AGAIN_S = 2.0
"""How often an aircraft that does not go down is told to land (s): by then one that stands has been
seen to."""

REFUSED_S = 0.25
"""A refusal counts if the aircraft stands still for this long (s) after it."""

LATE_STATE_S = 0.2
"""A state may be heard this much later (s) than an answer that is no older."""

DOWN_STATES = 2
"""An aircraft lands if so many states in a row say that it goes down."""

TAKEOFF_RISE_M = 0.2
"""An aircraft that has risen by this (m) is in the air."""

SETTLED_S = 1.0
"""An aircraft that has stood still for so long (s) says no more to what it was told."""

SEE_MOTORS_LIMIT_S = 3.0
"""How long it may take to see whether the motors turn (s)."""

_TAKEOFF_LIMIT_S, _LAND_LIMIT_S, _TURN_RAD_S = 20.0, 15.0, 0.5


class TelloFlight:
    """Takes off, moves, turns and lands, one thing at a time.

    Every manoeuvre raises ``SkillFailedError`` if the aircraft may not begin it or does not do it,
    and ``DriverTimeoutError`` if it is not seen to be done.

    Attributes:
        landing: Whether the aircraft is to land, or lands by itself: until its motors are off
            nothing else is asked of it, and nothing breaks that off.
    """

    def __init__(self, wire: TelloWire, options: TelloOptions) -> None:
        self.wire, self._options, self._telemetry = wire, options, wire.telemetry
        self.landing = False
        self._told_down = False
        """Whether it goes down because a move was to, one that may have been cut short."""
        self._x_m = self._y_m = 0.0
        self._start_yaw_deg = 0
        self._set_out = False
        """Whether it took off: where it did so first is where positions are counted from."""

    @property
    def heading_rad(self) -> float:
        """Counter-clockwise from its heading at its first take-off (rad)."""
        yaw_deg = self._telemetry.yaw_deg
        return -math.radians((yaw_deg if yaw_deg is not None else 0) - self._start_yaw_deg)

    @property
    def pose(self) -> Pose | None:
        """Where it is, by its moves since its first take-off and its height; None if unknown."""
        height_m = self._telemetry.height_m
        if height_m is None or not self._set_out:
            return None
        return Pose(self._x_m, self._y_m, height_m, self.heading_rad)

    @property
    def height_m(self) -> float:
        """Height above where it took off (m); 0 if unknown."""
        return self._telemetry.height_m or 0.0

    @property
    def may_fly(self) -> bool:
        """Whether the motors may turn: only their seconds that count no longer say no."""
        return self._telemetry.motors_turn is not False

    @property
    def lands(self) -> bool:
        """Whether the aircraft was told to land, or goes down though nobody told it to."""
        if not self.may_fly:
            self.landing = False
        elif self._telemetry.down_states >= DOWN_STATES and not self._told_down:
            self.landing = True
        return self.landing

    async def take_off(self) -> None:
        """Climb to its hovering height; no-op in the air."""
        telemetry = self._telemetry
        if (telemetry.motors_turn or telemetry.is_up) and await self._motors_turn():
            return
        battery, least = telemetry.battery_percent, self._options.minimum_battery_percent
        if battery is None or battery < least:
            raise SkillFailedError(
                f'battery {"unknown" if battery is None else f"{battery} %"}: expected at least '
                f'{least} % to take off'
            )
        if not self._set_out:
            self._set_out, self._start_yaw_deg = True, telemetry.yaw_deg or 0
        telemetry.doubt_motors()
        await self._do(
            'takeoff',
            _TAKEOFF_LIMIT_S,
            is_done=lambda: self.may_fly and telemetry.risen_m >= TAKEOFF_RISE_M,
            # It stands still for a while with its motors on before it rises.
            is_over=lambda: not self.may_fly,
        )

    async def land(self) -> None:
        """Go down until the motors are off; no-op if they are."""
        self.landing = True
        told_s, end_s = float('-inf'), time.monotonic() + _LAND_LIMIT_S
        while self.lands:
            now_s = time.monotonic()
            if self._telemetry.goes_down:
                told_s, end_s = now_s, now_s + _LAND_LIMIT_S
            elif now_s >= told_s + LAND_AGAIN_S:
                self.wire.mention('land')
                told_s = now_s
            if now_s >= end_s:
                raise DriverTimeoutError(
                    f'told to land for {_LAND_LIMIT_S:g} s: expected the motors to be off'
                )
            await self.wire.listen(TELL_AGAIN_S)

    def settle(self) -> None:
        """Tell the aircraft at once what is safe: to hover, or to go on landing if it lands.

        Raises:
            RobotUnavailableError: It cannot be told.
        """
        telemetry = self._telemetry
        if telemetry.goes_down and not self._told_down:
            # One state may be an old one, but a landing must not be broken off.
            self.landing = True
        if self.lands or (telemetry.motors_turn is None and telemetry.is_low):
            # On the ground with its motors off it refuses this, which does not matter.
            if not telemetry.goes_down:
                self.wire.mention('land')
        elif self.may_fly:
            self.wire.halt()

    async def settle_until_seen(self, limit_s: float) -> bool:
        """Settle until it stands still or lands; return whether that was within ``limit_s`` (s).

        Raises:
            RobotUnavailableError: It cannot be told.
        """
        telemetry = self._telemetry
        end_s, told_s, from_s = time.monotonic() + limit_s, float('-inf'), telemetry.heard_s
        telemetry.mark()
        while True:
            now_s = time.monotonic()
            if telemetry.heard_s > from_s and (self.lands or not self.may_fly):
                return True
            if self.wire.stands_still:
                self._told_down = False
                return True
            if now_s >= end_s:
                return False
            if now_s >= told_s + TELL_AGAIN_S:
                self.settle()
                told_s = now_s
            await self.wire.listen(min(end_s, told_s + TELL_AGAIN_S) - now_s)

    async def move(self, direction: str, distance_m: float) -> None:
        """Fly forward, back, left, right, up or down; a long way is flown in legs."""
        legs_cm = move_legs_cm(distance_m)
        await self._need_air(f'{direction} {distance_m:g} m')
        self._check_height(direction, distance_m)
        for leg_cm in legs_cm:
            with self._reckoning(direction, leg_cm / 100):
                await self._fly(
                    f'{direction} {leg_cm}',
                    7.0 + 2 * leg_cm / speed_cm_s(self._options.speed_m_s),
                    lambda: self._telemetry.path_m,
                    leg_cm / 100,
                    slack=0.05,
                )

    async def turn(self, angle_rad: float) -> None:
        """Turn on the spot, counter-clockwise if the angle is positive."""
        legs_deg = turn_legs_deg(abs(angle_rad))
        await self._need_air(f'turn by {math.degrees(angle_rad):.0f} degrees')
        word = 'ccw' if angle_rad > 0 else 'cw'
        for leg_deg in legs_deg:
            await self._fly(
                f'{word} {leg_deg}',
                7.0 + math.radians(leg_deg) / _TURN_RAD_S,
                lambda: self._telemetry.turned_deg,
                leg_deg,
                slack=3.0,
            )

    async def approach(self, x_m: float, y_m: float) -> None:
        """Turn towards a place and fly to it at this height, stopping short of it.

        Coordinates are from the place of the first take-off, x forward and y left of the heading
        there.
        """
        await self._need_air('a flight to an object')
        ahead_m, aside_m = x_m - self._x_m, y_m - self._y_m
        distance_m = math.hypot(ahead_m, aside_m) - STANDOFF_M
        if distance_m < 0.2:
            return
        angle_rad = math.remainder(math.atan2(aside_m, ahead_m) - self.heading_rad, math.tau)
        if abs(angle_rad) >= MIN_TURN_RAD:
            await self.turn(angle_rad)
        await self.move('forward', distance_m)

    async def stay(self, duration_s: float) -> None:
        """Hover in place, or stand on the ground, for a time."""
        end_s = time.monotonic() + duration_s
        while (left_s := end_s - time.monotonic()) > 0:
            if self.may_fly:
                self.wire.tell('rc 0 0 0 0')
            await asyncio.sleep(min(left_s, STAY_PERIOD_S))

    async def _fly(
        self,
        command: str,
        limit_s: float,
        flown: Callable[[], float],
        asked: float,
        *,
        slack: float,
    ) -> None:
        """Do a move whose measured amount says whether it was flown."""
        enough = max(0.5 * asked, 0.8 * asked - slack)
        self._told_down = command.startswith('down')
        try:
            await self._do(
                command,
                limit_s,
                is_done=lambda: flown() >= enough,
                is_over=lambda: True,
            )
        except SkillFailedError:
            self._told_down = False
            raise
        self._told_down = False

    async def _do(
        self,
        command: str,
        limit_s: float,
        *,
        is_done: Callable[[], bool],
        is_over: Callable[[], bool],
    ) -> None:
        """Send a command and watch the aircraft until it stands still and has done it, or not.

        Args:
            command: In the SDK's words.
            limit_s: How long this may take (s).
            is_done: Whether the state says that it did it.
            is_over: Whether one that stands still will do no more of it.
        """
        telemetry, end_s = self._telemetry, time.monotonic() + limit_s
        async with self.wire.told(command) as answers:
            while True:
                if self.wire.stands_still:
                    still_s = telemetry.heard_s - telemetry.still_since_s
                    refused_s = min(still_s, telemetry.heard_s - answers.refused_s)
                    done, settled = is_done(), still_s >= SETTLED_S
                    # What came before it stood still is an older answer.
                    ok = answers.ok_s >= telemetry.still_since_s - LATE_STATE_S
                    if done and (ok or (settled and not answers.refusal)):
                        return
                    if is_over() and refused_s >= (SETTLED_S if done else REFUSED_S):
                        raise SkillFailedError(
                            f'the aircraft refused {command!r}: it said {answers.refusal!r}'
                        )
                    began = answers.count > 0 or telemetry.has_moved
                    if is_over() and settled and began and not answers.refusal:
                        raise SkillFailedError(f'the aircraft stands still short of {command!r}')
                if not await self.wire.listen(end_s - time.monotonic()):
                    raise DriverTimeoutError(
                        f'{command!r} was not seen to be done within {limit_s:g} s'
                    )

    async def _motors_turn(self) -> bool:
        """Return whether the motors are seen to turn; wait until that is known."""
        telemetry, end_s = self._telemetry, time.monotonic() + SEE_MOTORS_LIMIT_S
        if telemetry.motors_turn and telemetry.is_low:
            # It may have landed a moment ago.
            telemetry.doubt_motors()
        while telemetry.motors_turn is None and time.monotonic() < end_s:
            await self.wire.listen(end_s - time.monotonic())
        return telemetry.motors_turn is True

    async def _need_air(self, what: str) -> None:
        if (self._telemetry.is_up and self.may_fly) or await self._motors_turn():
            return
        if not self._options.takeoff_when_needed:
            raise SkillFailedError(f'{what}: the aircraft is on the ground: expected takeoff first')
        await self.take_off()

    def _check_height(self, direction: str, distance_m: float) -> None:
        rise_m = {'up': distance_m, 'down': -distance_m}.get(direction, 0.0)
        height_m = self.height_m + rise_m
        if rise_m > 0 and height_m > self._options.maximum_height_m:
            raise SkillFailedError(
                f'{direction} {distance_m:g} m: would be {height_m:.1f} m high: expected at most '
                f'{self._options.maximum_height_m:g} m'
            )
        if rise_m < 0 and height_m < MIN_HEIGHT_M:
            raise SkillFailedError(
                f'{direction} {distance_m:g} m: would be {height_m:.1f} m high: expected at least '
                f'{MIN_HEIGHT_M:g} m'
            )

    @contextlib.contextmanager
    def _reckoning(self, direction: str, distance_m: float) -> Iterator[None]:
        """Add a leg to the position; one that was cut short counts as far as it may have come."""
        done = 0.0
        try:
            yield
            done = 1.0
        finally:
            done = done or min(1.0, self._telemetry.path_m / distance_m)
            aside = {'forward': 0.0, 'left': 0.5, 'back': 1.0, 'right': -0.5}.get(direction)
            if aside is not None:
                angle_rad = self.heading_rad + aside * math.pi
                self._x_m += done * distance_m * math.cos(angle_rad)
                self._y_m += done * distance_m * math.sin(angle_rad)
