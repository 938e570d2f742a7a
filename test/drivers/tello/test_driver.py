"""The Tello driver on djitellopy, flying mock aircraft over real UDP."""

from __future__ import annotations

import asyncio
import math
import socket
from dataclasses import replace

import pytest
from support.loopback import free_addresses
from support.robots.tello_bench import PATIENT, SCENE, SKILLS, bench, call, release_ports

from timely_llm_ros.drivers import read_options
from timely_llm_ros.drivers.tello import TelloDriver, TelloOptions
from timely_llm_ros.drivers.tello.mock.pose import Phase
from timely_llm_ros.drivers.tello.mock.server import MockTello
from timely_llm_ros.errors import ConfigurationError, RobotUnavailableError, SkillFailedError
from timely_llm_ros.execution import SegmentCode


async def test_every_skill_of_the_skill_set_flies() -> None:
    texts = [
        'takeoff', 'move_up(50)', 'move_forward(60)', 'move_right(40)', 'move_backward(30)',
        'move_left(20)', 'turn_cw(90)', 'turn_ccw(45)', 'scan', 'goto(cat_1)',
        'is_visible(cat_1)', 'take_picture', 'delay(100)', 'hover', 'log("found it")',
        'move_down(40)', 'land',
    ]  # fmt: skip
    assert {call(text).skill for text in texts} == set(SKILLS.skills)
    async with bench() as flight:
        values = {text: await flight.do(text) for text in texts}
        assert {text for text, value in values.items() if value is not None} == {
            'is_visible(cat_1)'
        }
        told = flight.mock.commands()
        # It might have been about to take off or to touch down: on the ground it refuses this.
        assert told[:2] == ['command', 'land']
        moves = [command for command in told if command[:3] not in ('rc ', 'sto', 'lan')]
        assert moves[1:11] == [
            'speed 50', 'speed?', 'takeoff', 'up 50', 'forward 60', 'right 40', 'back 30',
            'left 20', 'cw 90', 'ccw 45',
        ]  # fmt: skip
        assert moves[11:15] == ['cw 90'] * 4
        assert moves[-1] == 'down 40'
        assert told[-1] == 'land'
        assert flight.mock.phase is Phase.GROUND
        assert 'streamon' not in moves


async def test_an_object_is_flown_to_and_faced() -> None:
    async with bench() as flight:
        for text in ('takeoff', 'turn_cw(120)', 'move_forward(100)', 'goto(cat_1)'):
            await flight.do(text)
        pose = flight.mock.body.pose
        cat = SCENE.get('cat_1')
        assert cat is not None
        away_m = math.hypot(cat.x_m - pose.x_m, cat.y_m - pose.y_m)
        assert away_m == pytest.approx(0.5, abs=0.05)
        bearing_deg = -math.degrees(math.atan2(cat.y_m - pose.y_m, cat.x_m - pose.x_m))
        assert math.remainder(pose.yaw_deg - bearing_deg, 360) == pytest.approx(0, abs=3)
        flown = len(flight.mock.commands())
        await flight.do('goto(cat_1)')
        assert not any(c.startswith('forward') for c in flight.mock.commands()[flown:])


async def test_what_is_not_there_is_not_flown() -> None:
    async with bench() as flight:
        with pytest.raises(SkillFailedError, match=r'move_left\(50\).*on the ground.*takeoff'):
            await flight.do('move_left(50)')
        assert flight.mock.phase is Phase.GROUND


async def test_positions_are_counted_from_the_first_take_off() -> None:
    async with bench() as flight:
        before = flight.driver.pose
        assert before is None
        for text in ('takeoff', 'turn_ccw(90)', 'move_forward(100)', 'land', 'takeoff'):
            await flight.do(text)
        pose = flight.driver.pose
        assert pose is not None
        assert (pose.x_m, pose.y_m) == pytest.approx((0.0, 1.0), abs=0.05)
        assert pose.heading_rad == pytest.approx(math.pi / 2, abs=0.05)
        await flight.do('goto(cat_1)')
        cat = SCENE.get('cat_1')
        assert cat is not None
        body = flight.mock.body.pose
        assert math.hypot(cat.x_m - body.x_m, cat.y_m - body.y_m) == pytest.approx(0.5, abs=0.05)


async def test_an_envelope_knows_where_the_aircraft_is() -> None:
    rules = {'workspace': {'x': [-1, 2], 'y': [-1, 2]}, 'minimum_battery_percent': 30}
    async with bench(envelope=rules) as flight:
        assert (await flight.run('takeoff;turn_ccw(90);move_forward(150);')).succeeded
        outcome = await flight.run('hover;move_forward(80);', 'q')
        assert outcome.ending.code == SegmentCode.OUT_OF_ENVELOPE
        assert "move_forward(80): rule 'workspace': y 2." in outcome.ending.message
        assert outcome.calls == ('hover',)
        assert 'forward 80' not in flight.mock.commands()


async def test_a_move_on_the_ground_may_be_told_to_take_off() -> None:
    async with bench(takeoff_when_needed=True) as flight:
        await flight.do('move_left(50)')
        await flight.do('takeoff')
        assert flight.mock.phases() == ['takeoff', 'hover', 'move', 'hover']


@pytest.mark.parametrize(
    ('text', 'reason'),
    [
        ('move_up(300)', r'3\.[78] m high.*at most 3 m'),
        ('move_down(70)', r'0\.[01] m high.*at least'),
    ],
)
async def test_heights_have_limits(text: str, reason: str) -> None:
    async with bench() as flight:
        await flight.do('takeoff')
        with pytest.raises(SkillFailedError, match=reason):
            await flight.do(text)
        assert not {'up 300', 'down 70'} & set(flight.mock.commands())


async def test_an_idle_aircraft_is_kept_in_the_air_and_then_landed() -> None:
    # The mock lands by itself after 1.5 s of silence: it must not come to that.
    async with bench(land_after_s=2.5) as flight:
        await flight.do('takeoff')
        await flight.until_phase(Phase.GROUND)
        assert flight.mock.commands()[-1] == 'land'


async def test_what_comes_while_it_lands_by_itself_waits_for_it() -> None:
    async with bench(land_after_s=0.0, mock={'speed': 5.0}) as flight:
        await flight.do('takeoff')
        await flight.until_phase(Phase.LANDING)
        await flight.do('takeoff')
        assert flight.mock.phases() == ['takeoff', 'hover', 'landing', 'ground', 'takeoff', 'hover']


async def test_the_end_of_the_driver_is_a_landing() -> None:
    async with bench() as flight:
        await flight.do('takeoff')
        await flight.driver.close()
        assert flight.mock.phase is Phase.GROUND


async def test_a_driver_that_has_only_just_connected_makes_it_safe() -> None:
    async with bench() as flight:
        await flight.do('takeoff')
        move = asyncio.create_task(flight.do('move_forward(500)'))
        await flight.until_phase(Phase.MOVE)
        second = TelloDriver(
            replace(PATIENT, address=flight.mock.host, local_address=_local(flight.driver))
        )
        await second.connect()
        assert flight.mock.phase.is_safe
        await second.safe()
        await second.close()
        assert flight.mock.phase is Phase.GROUND
        with pytest.raises(SkillFailedError, match=r'forced stop|lands by itself'):
            await move


async def test_several_aircraft_share_the_ports_of_a_process() -> None:
    local, *hosts = free_addresses(4)
    mocks = [MockTello(host, speed=10.0) for host in hosts]
    drivers = [TelloDriver(replace(PATIENT, address=host, local_address=local)) for host in hosts]
    for mock in mocks:
        await mock.start()
    await asyncio.gather(*(driver.connect() for driver in drivers))
    for text in ('takeoff', 'move_up(50)', 'turn_cw(90)'):
        await asyncio.gather(*(driver.execute(call(text), SCENE) for driver in drivers))
    await drivers[0].close()
    assert [mock.phase for mock in mocks] == [Phase.GROUND, Phase.HOVER, Phase.HOVER]
    await drivers[1].execute(call('move_down(30)'), SCENE)
    await asyncio.gather(*(driver.close() for driver in drivers))
    assert {mock.phase for mock in mocks} == {Phase.GROUND}
    for mock in mocks:
        await mock.close()


async def test_a_test_that_leaves_its_driver_open_spoils_no_other() -> None:
    local, host = free_addresses(2)
    mock = MockTello(host, speed=10.0)
    await mock.start()
    left = TelloDriver(replace(PATIENT, address=host, local_address=local))
    await left.connect()
    await mock.close()
    release_ports()
    async with bench() as flight:
        await flight.do('takeoff')
        assert flight.mock.phase is Phase.HOVER


async def test_lost_datagrams_do_not_break_connecting_or_landing() -> None:
    async with bench(mock={'loss': 0.1}) as flight:
        flight.mock.set_fault('heal')
        await flight.do('takeoff')
        # The first word of landing is lost for certain.
        flight.mock.set_fault('deaf')
        landing = asyncio.create_task(flight.do('land'))
        await asyncio.sleep(0)
        await flight.until(lambda: flight.driver._wire._owed_answers, 'a word that is lost')
        flight.mock.set_fault('heal')
        await landing
        assert flight.mock.phase is Phase.GROUND


async def test_nobody_at_the_address_is_unavailable() -> None:
    local, nobody = free_addresses(2)
    driver = TelloDriver(TelloOptions(address=nobody, local_address=local))
    with pytest.raises(RobotUnavailableError, match=rf'{nobody}.*switched on'):
        await driver.connect()
    # The ports are free again.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((local, 8889))


async def test_a_taken_port_is_named() -> None:
    local, host = free_addresses(2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((local, 8890))
        with pytest.raises(RobotUnavailableError, match=rf'port 8890 of {local}.*in use.*free'):
            await TelloDriver(TelloOptions(address=host, local_address=local)).connect()


async def test_a_second_local_address_in_a_process_is_refused() -> None:
    async with bench():
        other, host = free_addresses(2)
        with pytest.raises(ConfigurationError, match='one control socket'):
            await TelloDriver(TelloOptions(address=host, local_address=other)).connect()


@pytest.mark.parametrize(
    ('options', 'reason'),
    [
        ({'address': 'drone.local'}, 'IPv4'),
        ({'address': ''}, 'IPv4'),
        ({'local_address': 'wlan0'}, 'local_address'),
        ({'speed_m_s': 7.0}, r'speed_m_s 7\.0: expected 0\.1 to 1'),
        ({'link_timeout_s': float('nan')}, 'link_timeout_s'),
        ({'wings': 2.0}, 'wings'),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        read_options('tello', options)


def _local(driver: TelloDriver) -> str:
    return driver._wire._local_address
