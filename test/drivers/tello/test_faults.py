"""What goes wrong in the air: the aircraft ends safe, and the outcome says why.

Safe is what the mock's own record says: it hovers, lands or stands. How fast is measured by
``benchmarks/robots/safety.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.robots.tello_bench import Bench, bench

from timely_llm_ros.drivers.tello.mock.pose import Phase
from timely_llm_ros.execution import ExecutorLimits, SegmentCode

if TYPE_CHECKING:
    import asyncio

    from timely_llm_ros.execution import SegmentOutcome

LONG = 'move_forward(500);'
"""A move that outlasts every fault: at the speed below it takes twelve seconds."""

SLOW: dict[str, Any] = {'mock': {'speed': 4.0}, 'speed_m_s': 0.1}


async def long_move(flight: Bench, plan: str = 'p') -> asyncio.Task[SegmentOutcome]:
    """Take off and begin a long move; return the segment that does it."""
    await flight.do('takeoff')
    segment = flight.run(LONG, plan)
    await flight.until_phase(Phase.MOVE)
    return segment


async def test_a_refusal_is_an_error_with_its_text() -> None:
    async with bench() as flight:
        flight.mock.set_fault('refuse forward error Not joystick')
        outcome = await flight.run('takeoff;move_forward(100);land;')
        assert outcome.ending.code == SegmentCode.SKILL_FAILED
        assert "move_forward(100): the aircraft refused 'forward 100'" in outcome.ending.message
        assert 'error Not joystick' in outcome.ending.message
        assert outcome.calls == ('takeoff', 'move_forward(100)')
        assert flight.mock.phase.is_safe


async def test_a_move_that_does_not_end_is_a_timeout() -> None:
    async with bench(limits=ExecutorLimits(timeout_factor=1.0, timeout_margin_s=0.5)) as flight:
        flight.mock.set_fault('stall')
        await flight.do('takeoff')
        outcome = await flight.run('move_forward(20);')
        assert outcome.ending.code == SegmentCode.DRIVER_TIMEOUT
        assert 'move_forward(20) did not end' in outcome.ending.message
        assert flight.mock.phase.is_safe
        assert 'stop' in flight.mock.commands()


@pytest.mark.parametrize('text', ['takeoff;', 'move_forward(100);'])
async def test_with_a_low_battery_nothing_takes_off(text: str) -> None:
    async with bench(mock={'battery_percent': 15.0}, takeoff_when_needed=True) as flight:
        outcome = await flight.run(text)
        assert outcome.ending.code == SegmentCode.SKILL_FAILED
        assert 'battery 15 %: expected at least 20 % to take off' in outcome.ending.message
        assert flight.mock.phases() == []


async def test_a_battery_that_runs_low_breaks_off_the_flight_and_lands() -> None:
    async with bench(**SLOW) as flight:
        segment = await long_move(flight)
        flight.mock.set_fault('battery 9')
        outcome = await segment
        assert outcome.ending.code == SegmentCode.SKILL_FAILED
        assert 'battery 9 %: expected more than 10 % in the air' in outcome.ending.message
        assert flight.mock.phase.is_safe
        await flight.until_phase(Phase.GROUND)


async def test_an_aircraft_that_falls_silent_is_lost_and_hovers() -> None:
    async with bench(**SLOW) as flight:
        segment = await long_move(flight)
        flight.cut('mute', 1.0)
        outcome = await segment
        assert outcome.ending.code == SegmentCode.ROBOT_LOST
        assert 'silent for ' in outcome.ending.message
        assert flight.mock.phase.is_safe
        assert not flight.executor.connected
        flight.heal()
        await flight.executor.start()
        assert (await flight.run('land;', 'q')).succeeded
        assert flight.mock.phase is Phase.GROUND


async def test_an_aircraft_out_of_reach_hovers_as_soon_as_it_is_back() -> None:
    async with bench(**SLOW) as flight:
        segment = await long_move(flight)
        flight.cut('lost', 1.0)
        outcome = await segment
        assert outcome.ending.code == SegmentCode.ROBOT_LOST
        # Nobody can tell it anything: it is where its move took it.
        assert flight.mock.phase is Phase.MOVE
        flight.heal()
        # Nobody connects again: the driver goes on telling it to hover.
        await flight.until(lambda: flight.mock.phase.is_safe, 'safe')
        assert flight.mock.body.pose.x_m < 4.9


async def test_while_it_is_lost_nothing_is_asked_of_it() -> None:
    async with bench() as flight:
        flight.cut('lost', 1.0)
        await flight.until(lambda: flight.driver._wire.telemetry.silence_s > 1.0, 'silence')
        outcome = await flight.run('takeoff;')
        assert outcome.ending.code == SegmentCode.ROBOT_LOST
        flight.heal()
        assert flight.mock.phases() == []


async def test_an_emergency_cuts_the_motors_and_says_so() -> None:
    async with bench(**SLOW) as flight:
        segment = await long_move(flight)
        assert await flight.executor.cut_power('pressed by a test')
        outcome = await segment
        assert outcome.ending.code == SegmentCode.CANCELED
        assert outcome.ending.message == 'emergency: pressed by a test'
        assert flight.mock.phase is Phase.WRECK
        assert 'emergency' in flight.mock.commands()


async def test_motors_that_were_cut_past_the_executor_fail_the_call() -> None:
    async with bench(**SLOW) as flight:
        segment = await long_move(flight)
        await flight.driver.emergency()
        outcome = await segment
        assert outcome.ending.code == SegmentCode.SKILL_FAILED
        assert 'motors were cut' in outcome.ending.message


async def test_a_cancelled_move_stops_and_the_next_one_gets_its_own_answer() -> None:
    async with bench(**SLOW) as flight:
        for plan in ('p1', 'p2'):
            segment = await long_move(flight, plan)
            assert await flight.executor.stop()
            assert flight.mock.phase.is_safe
            outcome = await segment
            assert outcome.ending.code == SegmentCode.CANCELED
            # The answers to the halt and to the broken-off move are still on their way.
            assert (await flight.run('turn_cw(30);', f'{plan} again')).succeeded
            assert flight.mock.phase.value == 'hover'
            assert (await flight.run('land;', f'{plan} again', 1)).succeeded
            assert flight.mock.phase.value == 'ground'


async def test_after_a_stop_it_lands_if_nobody_wants_anything() -> None:
    async with bench(mock={'speed': 2.0}, land_after_s=1.0) as flight:
        await long_move(flight)
        await flight.executor.stop()
        await flight.until_phase(Phase.GROUND)
        assert flight.mock.phases()[-3:] == ['hover', 'landing', 'ground']


async def test_a_halt_gets_through_a_bad_link() -> None:
    async with bench(**SLOW) as flight:
        for number in range(3):
            await flight.do('takeoff')
            segment = flight.run(LONG, f'p{number}')
            await flight.until_phase(Phase.MOVE)
            flight.mock.set_fault('loss 0.3')
            await flight.executor.stop()
            await segment
            await flight.until(lambda: flight.mock.phase.is_safe, 'safe')
            flight.mock.set_fault('heal')
            if not flight.executor.connected:
                await flight.executor.start()
