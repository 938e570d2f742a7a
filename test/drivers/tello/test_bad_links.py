"""Flights over links that lose, double, delay and reorder: nothing false is believed."""

from __future__ import annotations

import asyncio
import math
import random
from contextlib import suppress
from dataclasses import replace

import pytest
from support.loopback import free_addresses
from support.robots.tello_bench import PATIENT, SCENE, ClockWithoutStalls, call

from timely_llm_ros.drivers.tello import TelloDriver
from timely_llm_ros.drivers.tello.mock.pose import Phase, Pose
from timely_llm_ros.drivers.tello.mock.server import MockTello
from timely_llm_ros.errors import TimelyError

AIRCRAFT = 8
CALLS = 6
LIMIT_S = 4.0
"""A command that was lost is waited for no longer."""

WAYS = {
    'move_forward': (1, 0, 0),
    'move_backward': (-1, 0, 0),
    'move_left': (0, 1, 0),
    'move_right': (0, -1, 0),
    'move_up': (0, 0, 1),
    'move_down': (0, 0, -1),
}


class Flight:
    """One aircraft on a bad link, flown at random by its seed; notes what was false."""

    def __init__(self, host: str, local: str, seed: int) -> None:
        self._draw = random.Random(seed)
        draw = self._draw.uniform
        self._mock = MockTello(
            host,
            speed=4.0,
            drain_percent_s=0.0,
            loss=draw(0, 0.2),
            double=draw(0, 0.4),
            delay_s=draw(0, 0.25),
            seed=seed,
            clock=ClockWithoutStalls(),
        )
        self._mock.body.height_error_m = draw(0, 0.6)
        self._mock.body.blind = self._draw.random() < 0.2
        self._driver = TelloDriver(replace(PATIENT, address=host, local_address=local))
        self.false: list[str] = []
        self.done = 0

    async def fly(self) -> None:
        """Fly from the ground to the ground."""
        mock, driver = self._mock, self._driver
        await mock.start()
        while True:
            with suppress(TimelyError):
                await driver.connect()
                break
        for text in ('takeoff', 'takeoff', *(self._some_call() for _ in range(CALLS))):
            await self._try(text)
        if self._draw.random() < 0.5:
            await self._try('land')
        with suppress(TimelyError):
            await driver.safe()
        await driver.close()
        self._check(mock.phase is Phase.GROUND, f'at the end it is in phase {mock.phase}')
        await mock.close()

    async def _try(self, text: str) -> None:
        """Make a call, which may fail or be cancelled; check what it says it did."""
        before = self._mock.body.pose
        task = asyncio.create_task(self._driver.execute(call(text), SCENE))
        limit_s = self._draw.uniform(0, 0.5) if self._draw.random() < 0.2 else LIMIT_S
        await asyncio.wait({task}, timeout=limit_s)
        task.cancel()
        await asyncio.wait({task})
        if task.cancelled() or task.exception() is not None:
            assert task.cancelled() or isinstance(task.exception(), TimelyError)
            with suppress(TimelyError):
                await self._driver.safe()
        else:
            self.done += 1
            self._check_done(text, before)

    def _check_done(self, text: str, before: Pose) -> None:
        phase, pose = self._mock.phase, self._mock.body.pose
        name, _, amount = text.removesuffix(')').partition('(')
        if name == 'land':
            self._check(phase is Phase.GROUND, f'land: in phase {phase}, {pose.z_m:.2f} m high')
        elif name == 'takeoff':
            # In the air a late copy of an earlier move may be flown meanwhile.
            flies = phase in (Phase.HOVER, Phase.MOVE)
            self._check(flies and pose.z_m > 0.2, f'takeoff: in phase {phase}, {pose}')
        elif name in WAYS:
            asked_m = int(amount) / 100
            end = before.moved(*(asked_m * part for part in WAYS[name]))
            short_m = math.dist(end[:3], pose[:3])
            self._check(short_m <= 0.15 + 0.2 * asked_m, f'{text}: {short_m:.2f} m short')
        else:
            asked_deg = int(amount) * (1 if name == 'turn_cw' else -1)
            short_deg = abs(before.yaw_deg + asked_deg - pose.yaw_deg)
            enough = short_deg <= 4 + 0.2 * abs(asked_deg)
            self._check(enough, f'{text}: {short_deg:.0f} degrees short')

    def _check(self, fine: bool, what: str) -> None:
        if not fine:
            self.false.append(what)

    def _some_call(self) -> str:
        draw = self._draw
        if draw.random() < 0.3:
            return f'{draw.choice(("turn_cw", "turn_ccw"))}({draw.randint(10, 180)})'
        if draw.random() < 0.2:
            return draw.choice(('land', 'takeoff'))
        return f'{draw.choice(list(WAYS))}({draw.randint(20, 150)})'


@pytest.mark.parametrize('first_seed', range(0, 3 * AIRCRAFT, AIRCRAFT))
async def test_nothing_is_done_that_the_aircraft_has_not_done(first_seed: int) -> None:
    local, *hosts = free_addresses(1 + AIRCRAFT)
    flights = [Flight(host, local, first_seed + n) for n, host in enumerate(hosts)]
    await asyncio.gather(*(flight.fly() for flight in flights))
    assert {first_seed + n: flight.false for n, flight in enumerate(flights) if flight.false} == {}
    # Something is done, however bad the links are.
    assert sum(flight.done for flight in flights) > AIRCRAFT
