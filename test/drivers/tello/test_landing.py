"""Landings: nothing breaks one off, and what may be flying is landed, whoever flew it before."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from support.robots.tello_bench import Bench, bench

from timely_llm_ros.drivers.tello import TelloDriver
from timely_llm_ros.drivers.tello.mock.pose import Phase
from timely_llm_ros.errors import RobotUnavailableError, SkillFailedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from timely_llm_ros.drivers.tello.mock.server import MockTello


def stopped_landings(mock: MockTello) -> int:
    """Return how often it was told to stop while it landed."""
    phase, stops = '', 0
    for entry in mock.entries:
        if entry.event == 'phase':
            phase = entry.what
        elif (entry.what, phase) == ('stop', 'landing'):
            stops += 1
    return stops


@asynccontextmanager
async def landing(below_m: float = 0.6) -> AsyncIterator[tuple[Bench, asyncio.Task[object]]]:
    """Be in the midst of the call of a landing that takes a second."""
    async with bench(mock={'speed': 2.0}) as flight:
        await flight.do('takeoff')
        land = asyncio.create_task(flight.do('land'))
        body = flight.mock.body
        await flight.until(
            lambda: flight.mock.phase is Phase.LANDING and body.pose.z_m < below_m, 'a landing'
        )
        yield flight, land
        await flight.until_phase(Phase.GROUND)
        assert stopped_landings(flight.mock) == 0


async def second_driver(flight: Bench) -> TelloDriver:
    """Return another driver of the same aircraft that has just connected, as a guard's."""
    driver = TelloDriver(flight.driver._options)
    await driver.connect()
    return driver


async def test_it_has_landed_when_its_motors_are_off() -> None:
    async with landing(below_m=0.15) as (flight, land):
        flight.mock.set_fault('say ok')
        await land
        assert flight.mock.phase is Phase.GROUND


async def test_the_end_of_the_program_does_not_end_a_landing() -> None:
    async with landing() as (flight, land):
        flight.mock.set_fault('say ok')
        assert await flight.executor.close()
        assert flight.mock.phase is Phase.GROUND
        await asyncio.wait({land})


async def test_neither_a_stop_nor_a_cancelled_call_ends_a_landing() -> None:
    async with landing() as (flight, land):
        land.cancel()
        await flight.driver.safe()
        assert flight.mock.phase in (Phase.LANDING, Phase.GROUND)


async def test_silence_does_not_end_a_landing() -> None:
    async with bench(mock={'speed': 2.0}) as flight:
        await flight.do('takeoff')
        land = asyncio.create_task(flight.do('land'))
        await flight.until_phase(Phase.LANDING)
        flight.cut('mute', 0.4)
        with pytest.raises(RobotUnavailableError, match='silent'):
            await land
        with pytest.raises(RobotUnavailableError, match='silent'):
            await flight.do('land')
        await flight.until_phase(Phase.GROUND)
        assert stopped_landings(flight.mock) == 0


async def test_a_landing_that_somebody_stops_is_begun_again() -> None:
    async with landing() as (flight, land):
        flight.mock.body.take('stop', lambda _: None)
        await land
        assert flight.mock.phases()[-4:] == ['landing', 'hover', 'landing', 'ground']


async def test_a_driver_that_meets_a_landing_lets_it_land() -> None:
    async with landing() as (flight, land):
        second = await second_driver(flight)
        await second.safe()
        assert flight.mock.phase in (Phase.LANDING, Phase.GROUND)
        await second.close()
        assert flight.mock.phase is Phase.GROUND
        await land


async def test_a_driver_that_meets_a_low_aircraft_lands_it_at_the_end() -> None:
    async with bench() as flight:
        await flight.do('takeoff')
        # A landing that was broken off just above the ground.
        body = flight.mock.body
        body._aim = body.pose._replace(z_m=0.1)
        second = await second_driver(flight)
        await second.safe()
        await second.close()
        assert flight.mock.phase is Phase.GROUND


async def test_an_aircraft_that_reports_no_height_is_known_to_fly() -> None:
    async with bench() as flight:
        flight.mock.set_fault('low 0.8')
        await flight.do('takeoff')
        await flight.do('move_forward(50)')
        move = asyncio.create_task(flight.do('move_forward(500)'))
        await flight.until_phase(Phase.MOVE)
        second = await second_driver(flight)
        await second.safe()
        with pytest.raises(SkillFailedError):
            await move
        await second.close()
        assert flight.mock.phases()[-4:] == ['move', 'hover', 'landing', 'ground']


async def test_a_safe_action_on_the_ground_moves_nothing() -> None:
    async with bench() as flight:
        await flight.driver.safe()
        await flight.do('takeoff')
        await flight.do('land')
        told = len(flight.mock.commands())
        for _ in range(3):
            await flight.driver.safe()
        assert flight.mock.commands()[told:] == []
        second = await second_driver(flight)
        await second.safe()
        await second.close()
        assert flight.mock.phases() == ['takeoff', 'hover', 'landing', 'ground']
        assert 'stop' not in flight.mock.commands()


async def test_who_is_not_heard_lands_it_all_the_same() -> None:
    async with bench() as flight:
        await flight.do('takeoff')
        flight.cut('mute', 0.4)
        await flight.until(lambda: flight.driver._wire.telemetry.silence_s > 0.5, 'silence')
        close = asyncio.create_task(flight.driver.close())
        await flight.until_phase(Phase.GROUND)
        flight.heal()
        await close


@pytest.mark.parametrize('text', ['move_forward(500)', 'turn_cw(360)', 'delay(10000)'])
async def test_an_aircraft_that_lands_by_itself_is_left_to(text: str) -> None:
    async with bench(mock={'speed': 2.0}, landing_battery_percent=0) as flight:
        await flight.do('takeoff')
        call = asyncio.create_task(flight.do(text))
        await flight.until(
            lambda: 'rc 0 0 0 0' in flight.mock.commands()[-2:] or flight.mock.phase is Phase.MOVE,
            'begun',
        )
        flight.mock.set_fault('battery 3')
        with pytest.raises(SkillFailedError, match='lands by itself'):
            await call
        await flight.driver.safe()
        await flight.until_phase(Phase.GROUND)
        assert stopped_landings(flight.mock) == 0
