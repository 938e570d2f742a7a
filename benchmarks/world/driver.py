"""Flies a drone of the world without a network, on any clock: for runs as fast as they go.

The aircraft is the same as behind the Tello's protocol, and so are its skills; only the datagrams
are left out. It knows where it is, as one with a good odometry does.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import TYPE_CHECKING

from timely_llm_ros.drivers.tello import tello_skills
from timely_llm_ros.drivers.tello.mock import TelloBody
from timely_llm_ros.errors import SkillFailedError
from timely_llm_ros.world import WorldAircraft

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.execution import CallValue
    from timely_llm_ros.skills import Call, Scene
    from timely_llm_ros.world import World

TICK_S = 0.02
"""How often aircraft look at the time (s)."""

STANDOFF_M = 0.5
"""How far from a thing a drone stops (m), as the Tello's driver has it."""

LEAST_TURN_RAD = math.radians(3)

LEG_CM, LEAST_CM = 500, 20
"""The longest and the shortest move of a Tello (cm)."""


class WorldPerception:
    """The eyes of one drone: its camera, with what that misses and mistakes."""

    def __init__(self, world: World, robot: str) -> None:
        self._world, self._robot = world, robot

    async def look(self, scene: Scene) -> frozenset[str]:
        """Return the names of what is seen now, by its kind."""
        labels = {told.label for told in self._world.cameras[self._robot].look()}
        return frozenset(item.name for item in scene.objects if item.kind in labels)

    def locate(self, scene: Scene) -> Scene:
        """Return the scene as it is."""
        return scene

    async def take_picture(self) -> None:
        """Take one."""
        self._world.picture(self._robot)


class WorldFlight:
    """What flies one aircraft: each thing is told in the SDK's words and waited for."""

    def __init__(self, body: TelloBody, clock: Clock) -> None:
        self.body, self._clock = body, clock

    async def take_off(self) -> None:
        """Climb to a hovering height; no-op in the air."""
        if not self.body.flies:
            await self._tell('takeoff')

    async def land(self) -> None:
        """Go down until the motors are off; no-op if they are."""
        if self.body.flies:
            await self._tell('land')

    async def move(self, direction: str, distance_m: float) -> None:
        """Fly a way, in legs if it is long; one on the ground takes off first."""
        await self.take_off()
        left_cm = round(100 * distance_m)
        while left_cm >= LEAST_CM:
            leg_cm = left_cm if left_cm <= LEG_CM else min(LEG_CM, left_cm - LEAST_CM)
            await self._tell(f'{direction} {leg_cm}')
            left_cm -= leg_cm

    async def turn(self, angle_rad: float) -> None:
        """Turn on the spot."""
        await self.take_off()
        angle_deg = round(math.degrees(abs(angle_rad)))
        if angle_deg >= 1:
            await self._tell(f'{"ccw" if angle_rad > 0 else "cw"} {min(angle_deg, 360)}')

    async def approach(self, x_m: float, y_m: float) -> None:
        """Turn towards a place and fly there, stopping short of it."""
        await self.take_off()
        pose = self.body.pose
        ahead_m, aside_m = x_m - pose.x_m, y_m - pose.y_m
        heading_rad = -math.radians(pose.yaw_deg)
        angle_rad = math.remainder(math.atan2(aside_m, ahead_m) - heading_rad, math.tau)
        if abs(angle_rad) >= LEAST_TURN_RAD:
            await self.turn(angle_rad)
        await self.move('forward', max(0.0, math.hypot(ahead_m, aside_m) - STANDOFF_M))

    async def stay(self, duration_s: float) -> None:
        """Stay in place for a time."""
        await self._clock.sleep(duration_s)

    async def _tell(self, command: str) -> None:
        answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def hear(answer: str) -> None:
            if not answered.done():
                answered.set_result(answer)

        self.body.take(command, hear)
        answer = await answered
        if answer != 'ok':
            raise SkillFailedError(f'{command!r}: the aircraft answered {answer!r}: expected ok')


class WorldDriver:
    """Makes one drone of a world do the skills of ``skills/tello.yaml``.

    Args:
        world: Where it is. Somebody lets its aircraft live: see :func:`live`.
        robot: Its name.
        clock: The clock that it lives on.
    """

    def __init__(self, world: World, robot: str, clock: Clock) -> None:
        self.body = TelloBody(airframe=WorldAircraft(world, robot))
        flight = WorldFlight(self.body, clock)
        self._skills = tello_skills(flight, WorldPerception(world, robot), robot)

    async def connect(self) -> None:
        """Have it take commands."""
        self.body.take('command', lambda _: None)

    async def close(self) -> None:
        """Leave it where it is: it lands by itself after a while."""

    async def execute(self, call: Call, scene: Scene) -> CallValue:
        """Do one skill."""
        skill = self._skills.get(call.skill)
        if skill is None:
            raise SkillFailedError(
                f'skill {call.skill!r}: expected one of {", ".join(sorted(self._skills))}'
            )
        return await skill(call, scene)

    async def safe(self) -> None:
        """Have it hover where it is."""
        self.body.take('stop', lambda _: None)


async def live(world: World, drivers: Iterable[WorldDriver], clock: Clock) -> None:
    """Let a world and the aircraft of drivers live until this is cancelled."""
    bodies = [driver.body for driver in drivers]
    began_s = clock.now() - world.now_s
    with suppress(asyncio.CancelledError):
        while True:
            world.advance(clock.now() - began_s)
            for body in bodies:
                body.advance(clock.now())
            # Somebody who hovers for long is still there.
            await clock.sleep(TICK_S)
