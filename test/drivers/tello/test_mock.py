"""The mock Tello itself: its body on a time of the test's own, and its faults."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.loopback import free_addresses

from timely_llm_ros.drivers.tello.mock.body import TAKEOFF_M, WIND_DOWN_S, TelloBody
from timely_llm_ros.drivers.tello.mock.link import LATE_COPY_S, Link
from timely_llm_ros.drivers.tello.mock.pose import Phase
from timely_llm_ros.drivers.tello.mock.server import MockTello
from timely_llm_ros.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = (
    'takeoff', 'land', 'stop', 'emergency', 'up 50', 'down 20', 'left 100', 'right 30', 'back 500',
    'forward 20', 'cw 90', 'ccw 360', 'go 100 -50 30 40', 'speed 80', 'rc 10 -20 30 40',
    'rc 0 0 0 0', 'battery?', 'time?', 'streamoff', 'forward 19', 'cw', 'flip l', '', 'up x',
)  # fmt: skip


class Flight:
    """A body that is told commands on a time of its own."""

    def __init__(self, **options: Any) -> None:
        self.phases: list[tuple[float, Phase]] = []
        self.body = TelloBody(on_phase=self._note, **options)
        self.now_s = 0.0
        self.tell('command')

    def _note(self, at_s: float, phase: Phase) -> None:
        self.phases.append((at_s, phase))

    def tell(self, command: str) -> list[str]:
        """Return the answers, which come now or later."""
        answers: list[str] = []
        self.body.take(command, answers.append)
        return answers

    def wait(self, duration_s: float) -> None:
        self.now_s += duration_s
        self.body.advance(self.now_s)

    def state(self) -> dict[str, str]:
        fields = self.body.state_line().strip().strip(';').split(';')
        return dict(field.split(':') for field in fields)

    def do(self, command: str) -> list[str]:
        answers = self.tell(command)
        for _ in range(10_000):
            if answers or self.body.phase.is_safe:
                break
            self.wait(0.01)
        return answers


def test_a_move_takes_its_time_and_ends_where_it_should() -> None:
    flight = Flight()
    assert flight.do('takeoff') == ['ok']
    assert flight.body.pose.z_m == TAKEOFF_M
    start_s = flight.now_s
    answers = flight.tell('forward 100')
    flight.wait(1.0)
    assert answers == []
    assert 0 < flight.body.pose.x_m < 1.0
    while not answers:
        flight.wait(0.01)
    assert answers == ['ok']
    assert flight.now_s - start_s == pytest.approx(2.4, abs=0.02)
    assert flight.body.pose.x_m == pytest.approx(1.0)
    assert flight.do('cw 90') == flight.do('forward 50') == ['ok']
    assert flight.body.pose.y_m == pytest.approx(-0.5)


@given(st.lists(st.tuples(st.sampled_from(COMMANDS), st.floats(0.0, 4.0)), max_size=30))
def test_whatever_it_is_told_it_ends_on_the_ground(steps: list[tuple[str, float]]) -> None:
    flight = Flight()
    answers: list[tuple[str, list[str]]] = []
    for command, pause_s in steps:
        answers.append((command, flight.tell(command)))
        assert flight.body.pose.z_m >= 0
        flight.wait(pause_s)
    for _ in range(600):
        flight.wait(0.1)
    # Nobody says anything any more: it has landed by itself.
    assert flight.body.phase in (Phase.GROUND, Phase.WRECK)
    assert flight.body.pose.z_m == 0
    for command, got in answers:
        assert len(got) == (0 if command.startswith('rc') else 1), command
    for (_, one), (_, next_) in zip(flight.phases, flight.phases[1:], strict=False):
        assert one is not next_


def test_what_it_cannot_do_it_refuses_in_words() -> None:
    flight = Flight()
    assert flight.do('forward 100') == ['error Motor stop']
    flight.do('takeoff')
    assert flight.do('forward 19') == flight.do('up 501') == flight.do('cw 0') == ['out of range']
    assert flight.do('flip l') == ['unknown command: flip']
    move = flight.tell('forward 100')
    assert flight.tell('left 100') == ['error Not joystick']
    assert flight.tell('stop') == ['ok']
    assert move == ['forced stop']
    assert flight.body.phase is Phase.HOVER


def test_before_it_is_in_sdk_mode_it_says_nothing() -> None:
    answers: list[str] = []
    body = TelloBody()
    body.take('takeoff', answers.append)
    body.take('battery?', answers.append)
    assert answers == []
    assert body.phase is Phase.GROUND


def test_velocities_hold_until_they_are_told_otherwise() -> None:
    flight = Flight()
    flight.do('takeoff')
    assert flight.tell('rc 0 50 0 0') == []
    flight.wait(2.0)
    assert flight.body.pose.x_m == pytest.approx(1.0)
    assert not flight.body.phase.is_safe
    flight.tell('rc 0 0 0 0')
    assert flight.body.phase is Phase.HOVER


def test_an_empty_battery_brings_it_down() -> None:
    flight = Flight(battery_percent=12.0, drain_percent_s=1.0)
    flight.do('takeoff')
    for _ in range(200):
        flight.tell('rc 0 0 0 0')
        flight.wait(0.1)
    assert flight.body.phase is Phase.GROUND
    assert flight.do('takeoff') == ['error Low battery']


def test_its_state_has_the_fields_that_the_sdk_sends() -> None:
    flight = Flight()
    flight.do('takeoff')
    flight.tell('back 100')
    flight.wait(1.0)
    state = flight.state()
    assert state['h'] == '80'
    assert state['bat'] == '86'
    assert int(state['vgx']) < 0
    assert list(state) == [
        'mid', 'x', 'y', 'z', 'mpry', 'pitch', 'roll', 'yaw', 'vgx', 'vgy', 'vgz', 'templ',
        'temph', 'tof', 'h', 'bat', 'baro', 'time', 'agx', 'agy', 'agz',
    ]  # fmt: skip


def test_a_landing_is_answered_at_its_end_and_stop_breaks_it_off() -> None:
    flight = Flight()
    flight.do('takeoff')
    answers = flight.tell('land')
    flight.wait(1.5)
    assert (answers, flight.body.phase) == ([], Phase.LANDING)
    assert int(flight.state()['vgz']) > 0
    assert flight.tell('land') == ['error Auto land']
    assert flight.tell('forward 50') == ['error Auto land']
    assert flight.tell('stop') == ['ok']
    assert answers == ['forced stop']
    assert flight.body.phase is Phase.HOVER
    flight.wait(10.0)
    assert flight.body.pose.z_m == pytest.approx(TAKEOFF_M - 1.5 * 0.4)
    answers = flight.tell('land')
    flight.wait(0.6)
    # It touches the ground, and its motors still turn.
    assert (answers, flight.body.phase, flight.body.pose.z_m) == ([], Phase.LANDING, 0.0)
    flight.wait(WIND_DOWN_S)
    assert (answers, flight.body.phase) == (['ok'], Phase.GROUND)


def test_nobody_there_for_a_while_is_a_landing_that_a_command_ends() -> None:
    flight = Flight()
    flight.do('takeoff')
    flight.wait(15.1)
    flight.wait(0.5)
    assert flight.tell('command') == ['ok']
    flight.tell('land')
    flight.tell('command')
    assert [phase for _, phase in flight.phases] == [
        Phase.TAKEOFF, Phase.HOVER, Phase.LANDING, Phase.HOVER, Phase.LANDING
    ]  # fmt: skip


def test_its_time_is_that_of_the_motors() -> None:
    flight = Flight()
    flight.wait(5.0)
    assert flight.state()['time'] == '0'
    flight.do('takeoff')
    flight.do('land')
    flight.wait(3.0)
    flown = flight.state()['time']
    assert int(flown) >= 5
    flight.wait(5.0)
    assert flight.state()['time'] == flown
    flight.do('takeoff')
    flight.tell('emergency')
    cut = flight.state()['time']
    assert int(cut) > int(flown)
    flight.wait(5.0)
    assert flight.state()['time'] == cut


def test_what_it_is_asked_it_answers() -> None:
    flight = Flight()
    flight.tell('speed 80')
    flight.do('takeoff')
    asked = ('speed?', 'battery?', 'time?', 'height?', 'tof?', 'temp?', 'wifi?', 'sdk?')
    assert [flight.tell(question) for question in asked] == [
        ['80.0\r\n'], ['86\r\n'], ['3s\r\n'], ['8dm\r\n'], ['800mm\r\n'], ['61~63C\r\n'],
        ['90\r\n'], ['20\r\n'],
    ]  # fmt: skip
    assert flight.tell('streamon') == ['ok']
    assert flight.tell('streamoff') == ['ok']


def test_a_blind_aircraft_breaks_a_move_off_half_way() -> None:
    flight = Flight()
    flight.do('takeoff')
    flight.body.blind = True
    assert flight.do('forward 100') == ['error No valid imu']
    assert flight.body.pose.x_m == pytest.approx(0.5, abs=0.05)


def test_the_height_that_it_reports_may_be_too_low() -> None:
    flight = Flight()
    flight.body.height_error_m = 0.35
    assert flight.state()['h'] == '0'
    flight.do('takeoff')
    assert (flight.state()['h'], flight.state()['tof']) == ('45', '80')


def test_a_link_loses_doubles_and_delays_by_its_seed() -> None:
    bad = {'loss': 0.2, 'double': 0.3, 'delay_s': 0.2}
    arrivals = [Link('1', **bad).delays_s() for _ in range(2)]
    assert arrivals[0] == arrivals[1]
    link = Link('1', **bad)
    drawn = [link.delays_s() for _ in range(2000)]
    shares = [sum(len(one) == copies for one in drawn) / len(drawn) for copies in (0, 1, 2)]
    assert shares == pytest.approx([0.2, 0.8 * 0.7, 0.8 * 0.3], abs=0.03)
    assert max(one[0] for one in drawn if one) == pytest.approx(0.2, abs=0.01)
    assert all(0 <= one[1] - one[0] <= LATE_COPY_S for one in drawn if len(one) == 2)
    assert any(a and b and a[0] > b[0] + 0.1 for a, b in pairwise(drawn))
    link.set()
    assert all(link.delays_s() == [0.0] for _ in range(100))


async def test_what_arrives_twice_is_said_twice() -> None:
    local, host = free_addresses(2)
    mock = MockTello(host, speed=100.0, double=1.0)
    await mock.start()
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as pilot:
        pilot.bind((local, 8889))
        pilot.setblocking(False)
        await loop.sock_sendto(pilot, b'command', (host, 8889))
        async with asyncio.timeout(60):
            said = [(await loop.sock_recvfrom(pilot, 100))[0] for _ in range(2)]
        assert said == [b'ok', b'ok']
        mock.set_fault('heal')
        mock.set_fault('say error Motor stop')
        async with asyncio.timeout(60):
            assert (await loop.sock_recvfrom(pilot, 100))[0] == b'error Motor stop'
    await mock.close()


@pytest.mark.parametrize(
    'fault',
    ['', 'battery', 'battery 120', 'loss x', 'delay -1', 'low 2', 'say ok', 'refuse', 'explode'],
)
def test_a_fault_that_is_none_is_refused(fault: str) -> None:
    with pytest.raises(ConfigurationError, match='expected deaf'):
        MockTello('127.0.0.2').set_fault(fault)


@pytest.mark.parametrize(
    'options', [{'speed': 0.0}, {'loss': 1.5}, {'delay_s': 11.0}, {'battery_percent': -1.0}]
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match='expected'):
        MockTello('127.0.0.2', **options)


async def test_an_address_that_is_taken_is_named() -> None:
    (host,) = free_addresses(1)
    mock = MockTello(host)
    await mock.start()
    with pytest.raises(ConfigurationError, match=rf'{host}.*in use'):
        await MockTello(host).start()
    await mock.close()


def test_the_program_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    (host,) = free_addresses(1)
    command = [sys.executable, '-m', 'timely_llm_ros.drivers.tello.mock']
    environment = os.environ | {'PYTHONPATH': str(ROOT)}
    helped = subprocess.run(
        [*command, '--help'], capture_output=True, text=True, check=True, env=environment
    )
    assert 'examples:' in helped.stdout
    options = ['--host', host, '--control', '--journal', str(tmp_path / 'journal')]
    with subprocess.Popen(
        [*command, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as program:
        assert program.stdout is not None
        assert program.stdin is not None
        assert program.stderr is not None
        assert host in program.stdout.readline()
        program.stdin.write(f'{host} battery 8\n{host} explode\n')
        program.stdin.flush()
        assert 'battery 8' in program.stdout.readline()
        assert "fault 'explode'" in program.stderr.readline()
        program.send_signal(2)
        assert program.wait(60) == 0
    assert 'battery 8' in (tmp_path / 'journal').read_text()
    taken = subprocess.run(
        [*command, '--host', '203.0.113.1'], capture_output=True, text=True, env=environment
    )
    assert taken.returncode == 1
    assert taken.stderr.startswith('error: mock Tello at 203.0.113.1')
