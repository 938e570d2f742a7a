"""Answers that come late, twice, or to nothing that was asked: the aircraft's state has the say."""

from __future__ import annotations

import asyncio

import pytest
from support.robots.tello_bench import bench

from timely_llm_ros.drivers.tello.mock.pose import Phase
from timely_llm_ros.errors import SkillFailedError


@pytest.mark.parametrize(
    ('text', 'x_m', 'yaw_deg'), [('move_forward(100)', 1.0, 0.0), ('turn_cw(90)', 0.0, 90.0)]
)
async def test_an_old_ok_does_not_end_a_move(text: str, x_m: float, yaw_deg: float) -> None:
    async with bench(mock={'speed': 3.0}) as flight:
        await flight.do('takeoff')
        move = asyncio.create_task(flight.do(text))
        await flight.until_phase(Phase.MOVE)
        flight.mock.set_fault('say ok')
        await move
        assert flight.mock.phase is Phase.HOVER
        pose = flight.mock.body.pose
        assert (pose.x_m, pose.yaw_deg) == pytest.approx((x_m, yaw_deg))


async def test_an_old_ok_is_no_move_at_all() -> None:
    async with bench() as flight:
        await flight.do('takeoff')
        flight.mock.set_fault('deaf')
        move = asyncio.create_task(flight.do('move_forward(100)'))
        await flight.until(lambda: flight.driver._wire._owed_answers, 'a word that is lost')
        flight.mock.set_fault('say ok')
        with pytest.raises(SkillFailedError, match="stands still short of 'forward 100'"):
            await move
        assert flight.mock.body.pose.x_m == 0


async def test_an_old_ok_does_not_hide_a_move_that_breaks_off() -> None:
    async with bench(mock={'speed': 3.0}) as flight:
        await flight.do('takeoff')
        flight.mock.set_fault('blind')
        move = asyncio.create_task(flight.do('move_forward(100)'))
        await flight.until_phase(Phase.MOVE)
        flight.mock.set_fault('say ok')
        with pytest.raises(SkillFailedError, match='No valid imu'):
            await move


async def test_a_move_whose_answer_is_lost_is_seen_to_be_done() -> None:
    async with bench(mock={'speed': 3.0}) as flight:
        await flight.do('takeoff')
        move = asyncio.create_task(flight.do('move_forward(100)'))
        await flight.until_phase(Phase.MOVE)
        maneuver = flight.mock.body._maneuver
        assert maneuver is not None
        maneuver.answer = lambda _: None
        await move
        assert flight.mock.body.pose.x_m == pytest.approx(1.0)


@pytest.mark.parametrize('answer', ['error Motor stop', 'error', 'error Not joystick'])
async def test_an_old_refusal_does_not_end_what_is_done(answer: str) -> None:
    async with bench(mock={'speed': 3.0}) as flight:
        for text, phase in (('takeoff', Phase.TAKEOFF), ('move_forward(100)', Phase.MOVE)):
            task = asyncio.create_task(flight.do(text))
            await flight.until_phase(phase)
            flight.mock.set_fault(f'say {answer}')
            await task
            assert flight.mock.phase is Phase.HOVER
        assert flight.mock.body.pose.x_m == pytest.approx(1.0)
