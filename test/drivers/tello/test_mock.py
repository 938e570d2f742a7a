"""The mock Tello itself: its body on a time of the test's own, and its faults."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.loopback import free_addresses

from timely_llm_ros.drivers.tello.mock.body import TAKEOFF_M, TelloBody
from timely_llm_ros.drivers.tello.mock.pose import Phase
from timely_llm_ros.drivers.tello.mock.server import MockTello
from timely_llm_ros.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = (
    'takeoff', 'land', 'stop', 'emergency', 'up 50', 'down 20', 'left 100', 'right 30', 'back 500',
    'forward 20', 'cw 90', 'ccw 360', 'go 100 -50 30 40', 'speed 80', 'rc 10 -20 30 40',
    'rc 0 0 0 0', 'battery?', 'forward 19', 'cw', 'flip l', '', 'up x',
)  # fmt: skip


class Flight:
    """A body that is told commands on a time of its own."""

    def __init__(self, **options: float) -> None:
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
    state = dict(
        field.split(':') for field in flight.body.state_line().strip().strip(';').split(';')
    )
    assert state['h'] == '80'
    assert state['bat'] == '86'
    assert int(state['vgx']) < 0
    assert set(state) >= {'pitch', 'roll', 'yaw', 'vgy', 'vgz', 'tof', 'baro', 'time', 'agz'}


@pytest.mark.parametrize('fault', ['', 'battery', 'battery 120', 'loss x', 'refuse', 'explode'])
def test_a_fault_that_is_none_is_refused(fault: str) -> None:
    with pytest.raises(ConfigurationError, match='expected deaf'):
        MockTello('127.0.0.2').set_fault(fault)


@pytest.mark.parametrize('options', [{'speed': 0.0}, {'loss': 1.5}, {'battery_percent': -1.0}])
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
