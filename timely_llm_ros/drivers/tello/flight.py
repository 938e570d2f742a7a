"""Flies one Tello within its limits and keeps track of where it is."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from typing import TYPE_CHECKING

from timely_llm_ros.drivers.tello.units import move_legs_cm, speed_cm_s, turn_legs_deg
from timely_llm_ros.errors import DriverTimeoutError, SkillFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timely_llm_ros.drivers.tello.options import TelloOptions
    from timely_llm_ros.drivers.tello.wire import TelloWire

ON_GROUND_M = 0.1
"""An aircraft no higher than this (m) counts as standing on the ground."""

MIN_HEIGHT_M = 0.2
"""No move down ends lower than this above the place of take-off (m)."""

MIN_TURN_RAD = math.radians(3)
"""The driver leaves out smaller turns towards an object (rad)."""

STANDOFF_M = 0.5
"""How far from an object the aircraft stops (m)."""

STAY_PERIOD_S = 0.5
"""How often a waiting aircraft is told to stay (s): after 15 s of silence it lands by itself."""

LAND_AGAIN_S = 1.5
"""An aircraft that has not gone down for this long (s) is told again to land."""

SEE_LIMIT_S = 1.0
"""How much later than an answer the state that shows its effect may come (s)."""

_TAKEOFF_LIMIT_S, _LAND_LIMIT_S, _TURN_RAD_S = 20.0, 15.0, 0.5


class TelloFlight:
    """Takes off, moves, turns and lands, one thing at a time.

    Every manoeuvre raises ``SkillFailedError`` if the aircraft may not begin it or refuses it, and
    ``DriverTimeoutError`` if it does not answer.
    """

    def __init__(self, wire: TelloWire, options: TelloOptions) -> None:
        self.wire, self._options = wire, options
        self.may_fly = True
        """Whether the motors may turn: only a landing that was confirmed says no."""
        self._x_m = self._y_m = 0.0
        self._start_yaw_deg = 0

    @property
    def heading_rad(self) -> float:
        """Counter-clockwise from its heading at take-off (rad)."""
        yaw_deg = self.wire.telemetry.yaw_deg
        return -math.radians((yaw_deg if yaw_deg is not None else 0) - self._start_yaw_deg)

    @property
    def height_m(self) -> float:
        """Height above where it took off (m); 0 if unknown."""
        return self.wire.telemetry.height_m or 0.0

    @property
    def in_the_air(self) -> bool:
        """Whether the aircraft says that it is above the ground."""
        return self.height_m > ON_GROUND_M

    async def take_off(self) -> None:
        """Climb to its hovering height; no-op in the air."""
        if self.in_the_air:
            return
        battery, least = self.wire.telemetry.battery_percent, self._options.minimum_battery_percent
        if battery is None or battery < least:
            raise SkillFailedError(
                f'battery {"unknown" if battery is None else f"{battery} %"}: expected at least '
                f'{least} % to take off'
            )
        self.may_fly = True
        self._x_m = self._y_m = 0.0
        self._start_yaw_deg = self.wire.telemetry.yaw_deg or 0
        await self._do('takeoff', _TAKEOFF_LIMIT_S)
        await self._see(in_the_air=True)

    async def land(self) -> None:
        """Go down until it stands; no-op on the ground."""
        if not self.may_fly and not self.in_the_air:
            return
        again = asyncio.create_task(self._land_again())
        try:
            await self._do('land', _LAND_LIMIT_S)
        except (SkillFailedError, DriverTimeoutError):
            # On the ground it says that it does not fly, on its way down that it lands by itself;
            # and its last answer may be lost.
            if not await self._comes_down():
                raise
        finally:
            again.cancel()
        await self._see(in_the_air=False)
        self.may_fly = False

    async def move(self, direction: str, distance_m: float) -> None:
        """Fly forward, back, left, right, up or down; a long way is flown in legs."""
        legs_cm = move_legs_cm(distance_m)
        await self._need_air(f'{direction} {distance_m:g} m')
        await self._check_height(direction, distance_m)
        for leg_cm in legs_cm:
            with self._reckoning(direction, leg_cm / 100):
                await self._do(
                    f'{direction} {leg_cm}', 7.0 + 2 * leg_cm / speed_cm_s(self._options.speed_m_s)
                )

    async def turn(self, angle_rad: float) -> None:
        """Turn on the spot, counter-clockwise if the angle is positive."""
        legs_deg = turn_legs_deg(abs(angle_rad))
        await self._need_air(f'turn by {math.degrees(angle_rad):.0f} degrees')
        word = 'ccw' if angle_rad > 0 else 'cw'
        for leg_deg in legs_deg:
            await self._do(f'{word} {leg_deg}', 7.0 + math.radians(leg_deg) / _TURN_RAD_S)

    async def approach(self, x_m: float, y_m: float) -> None:
        """Turn towards a place and fly to it at this height, stopping short of it.

        Coordinates are from the place of take-off, x forward and y left of the heading there.
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

    async def _do(self, command: str, limit_s: float) -> None:
        answer = await self.wire.ask(command, limit_s)
        if answer.lower() != 'ok':
            raise SkillFailedError(f'the aircraft refused {command!r}: it said {answer!r}')

    async def _see(self, *, in_the_air: bool) -> None:
        """Wait until the state shows what the answer said: states come a moment later."""
        end_s = time.monotonic() + SEE_LIMIT_S
        while self.in_the_air != in_the_air and (left_s := end_s - time.monotonic()) > 0:
            await self.wire.wait_state(left_s)

    async def _comes_down(self) -> bool:
        """Watch the aircraft; return whether it came to stand on the ground."""
        while self.wire.telemetry.silence_s <= self._options.link_timeout_s:
            before_m = self.height_m
            if not self.in_the_air:
                return True
            await asyncio.sleep(SEE_LIMIT_S)
            if self.in_the_air and self.height_m >= before_m:
                return False
        return False

    async def _need_air(self, what: str) -> None:
        if self.in_the_air:
            return
        if not self._options.takeoff_when_needed:
            raise SkillFailedError(f'{what}: the aircraft is on the ground: expected takeoff first')
        await self.take_off()

    async def _check_height(self, direction: str, distance_m: float) -> None:
        rise_m = {'up': distance_m, 'down': -distance_m}.get(direction, 0.0)
        if rise_m:
            await self.wire.wait_settled(SEE_LIMIT_S)
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
        started_s, done = time.monotonic(), 0.0
        try:
            yield
            done = 1.0
        finally:
            if not done:
                done = min(
                    1.0, self._options.speed_m_s * (time.monotonic() - started_s) / distance_m
                )
            aside = {'forward': 0.0, 'left': 0.5, 'back': 1.0, 'right': -0.5}.get(direction)
            if aside is not None:
                angle_rad = self.heading_rad + aside * math.pi
                self._x_m += done * distance_m * math.cos(angle_rad)
                self._y_m += done * distance_m * math.sin(angle_rad)

    async def _land_again(self) -> None:
        """Repeat the command while it has no effect: it may have been lost."""
        while True:
            before_m = self.height_m
            await asyncio.sleep(LAND_AGAIN_S)
            if self.height_m >= before_m and self.in_the_air:
                self.wire.mention('land')
