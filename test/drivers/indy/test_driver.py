"""The Indy driver through the real SDK, against the mock controller on loopback."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.robots.indy_bench import ARM, PATIENT, IndyBench, on_arm

from timely_llm_ros.drivers.indy import IndyDriver, IndyOptions
from timely_llm_ros.drivers.indy.mock.__main__ import main
from timely_llm_ros.drivers.indy.mock.arm import MockIndy
from timely_llm_ros.errors import ConfigurationError, RobotUnavailableError
from timely_llm_ros.execution import ExecutorLimits, SegmentCode

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope='module')
def mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MockIndy]:
    mock = MockIndy(tmp_path_factory.mktemp('indy'), speed=8.0)
    yield mock
    mock.close()


@pytest.fixture(scope='module')
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MockIndy]:
    """An arm that is still under way whatever else the machine does."""
    mock = MockIndy(tmp_path_factory.mktemp('indy'), speed=0.02)
    yield mock
    mock.close()


HOME = [0, 24, 128, 0, 0, 0]
CUP, ABOVE_CUP = [400, 0, 50], [400, 0, 150]
BOX, ABOVE_BOX = [300, -200, 150], [300, -200, 250]


SKILLS: list[tuple[str, list[list[int]], list[int]]] = [
    ('move_to(30,-20,15);', [[300, -200, 150]], []),
    ('move_to(30,-20,15);home;', [[300, -200, 150], HOME], []),
    ('open_gripper;close_gripper;', [], [-2, 2]),
    ('pick(cup_1);', [ABOVE_CUP, CUP, ABOVE_CUP], [-2, 2]),
    ('place(box_1);', [ABOVE_BOX, BOX, ABOVE_BOX], [-2]),
    (
        'sort_into(cup_1,box_1);',
        [ABOVE_CUP, CUP, ABOVE_CUP, ABOVE_BOX, BOX, ABOVE_BOX],
        [-2, 2, -2],
    ),
    ('push(cup_1,20);', [ABOVE_CUP, CUP, [600, 0, 50], [600, 0, 150]], [2]),
    ('wipe(cup_1);', [ABOVE_CUP, CUP, [400, 60, 50], [400, -60, 50], CUP, ABOVE_CUP], []),
]
"""Plans, where their motions go (mm, or deg of joints), and the states of the gripper's output."""


def test_skills_are_motions_of_the_arm(mock: MockIndy) -> None:
    async def body(bench: IndyBench) -> None:
        for number, (plan, ends, gripper) in enumerate(SKILLS):
            bench.reset()
            outcome = await bench.run(plan, f'plan {number}')
            assert outcome.succeeded, outcome
            # A skill is over when the arm is.
            assert bench.mock.stands_still
            assert bench.ends == ends, plan
            outputs = [event for event in bench.record if event['event'] == 'output']
            assert [event['states'][0] for event in outputs] == gripper, plan

    on_arm(mock, body)


def test_what_is_out_of_bounds_does_not_move_the_arm(mock: MockIndy) -> None:
    async def body(bench: IndyBench) -> None:
        for plan, text in (
            ('pick(ball_1);', '1.500 m from the base: expected at most 0.7 m'),
            ('move_to(80,1,10);', '0.800 m from the base'),
            ('push(box_1,40);', '0.761 m from the base'),
            ('look_at(cup_1);', 'no perception'),
        ):
            outcome = await bench.run(plan, plan)
            assert outcome.ending.code == SegmentCode.SKILL_FAILED
            assert text in outcome.ending.message
            assert bench.ends == []

    on_arm(mock, body, reach_m=0.7)


def test_a_refusal_of_the_controller_is_an_error_with_its_text(mock: MockIndy) -> None:
    async def body(bench: IndyBench) -> None:
        bench.mock.command('refuse joint 3 near singularity')
        outcome = await bench.run('home;')
        assert outcome.ending.code == SegmentCode.SKILL_FAILED
        assert 'refused with code 4: joint 3 near singularity' in outcome.ending.message
        assert bench.ends == []
        # What the controller itself cannot reach, though the bounds here are wider.
        outcome = await bench.run('move_to(79,0,0);', 'q')
        assert 'refused with code 2: no inverse kinematics' in outcome.ending.message
        assert bench.ends == []
        assert bench.executor.state.phase == 'safe'
        assert (await bench.run('home;', 'r')).succeeded

    on_arm(mock, body)


@pytest.mark.parametrize(
    ('command', 'texts'),
    [
        ('violate joint 2: torque limit', ('OP_VIOLATE', 'joint 2: torque limit')),
        ('collide', ('OP_COLLISION', 'collision detected')),
        ('estop', ('OP_STOP_AND_OFF', 'emergency stop')),
    ],
)
def test_what_befalls_the_arm_ends_the_task_and_says_why(
    slow: MockIndy, command: str, texts: tuple[str, str]
) -> None:
    async def body(bench: IndyBench) -> None:
        task = bench.run('move_to(40,0,10);home;')
        await bench.until_moving()
        bench.mock.command(command)
        outcome = await task
        assert outcome.ending.code == SegmentCode.SKILL_FAILED
        assert all(text in outcome.ending.message for text in texts), outcome.ending.message
        assert bench.mock.stands_still
        assert bench.ends == [[400, 0, 100]]
        # The safe action works in that state, and nothing moves until a person did something.
        assert bench.executor.state.phase == 'safe'
        outcome = await bench.run('home;', 'q')
        assert 'expected a person to recover it' in outcome.ending.message
        assert bench.ends == [[400, 0, 100]]

    on_arm(slow, body)


def test_it_recovers_where_that_was_asked_for(mock: MockIndy) -> None:
    async def body(bench: IndyBench) -> None:
        bench.mock.command('collide')
        assert (await bench.run('home;')).succeeded
        assert bench.names[-5:-1] == ['still', 'recover', 'recovered', 'move']
        # Not from a pressed button.
        bench.mock.command('estop')
        outcome = await bench.run('home;', 'q')
        assert 'recovery from OP_STOP_AND_OFF' in outcome.ending.message
        assert 'emergency stop is pressed' in outcome.ending.message
        bench.mock.command('release')
        assert (await bench.run('home;', 'r')).succeeded

    on_arm(mock, body, auto_recover=True)


@pytest.mark.parametrize(
    ('cut', 'mend', 'text'),
    [('silence', 'answer', 'DEADLINE_EXCEEDED'), ('unplug', 'plug', 'UNAVAILABLE')],
)
def test_a_lost_link_loses_the_robot_and_a_stop_comes_first_when_it_is_back(
    mock: MockIndy, cut: str, mend: str, text: str
) -> None:
    async def body(bench: IndyBench) -> None:
        task = bench.run('repeat(10){wipe(cup_1);};')
        await bench.until_moving()
        bench.lose_patience(0.1)
        bench.mock.command(cut)
        outcome = await task
        assert outcome.ending.code == SegmentCode.ROBOT_LOST
        assert text in outcome.ending.message
        assert bench.executor.state.phase == 'lost'
        # The controller ends the motion that it was told, and was told no other.
        await bench.until_still()
        with pytest.raises(RobotUnavailableError):
            await bench.executor.start()
        before = len(bench.ends)
        bench.lose_patience(PATIENT.link_limit_s)
        bench.mock.command(mend)
        await bench.until_back()
        assert bench.names[-1] == 'stop'
        assert len(bench.ends) == before
        assert (await bench.run('home;', 'q')).succeeded

    on_arm(mock, body, answer_limit_s=1.5)


def test_a_skill_that_takes_too_long_is_stopped(slow: MockIndy) -> None:
    async def body(bench: IndyBench) -> None:
        outcome = await bench.run('move_to(40,0,10);')
        assert outcome.ending.code == SegmentCode.DRIVER_TIMEOUT
        assert (
            'move_to(40,0,10) did not end: expected 2.0 s, at most 2.2 s' in outcome.ending.message
        )
        await bench.until_still()
        assert bench.names[-1] == 'still'
        assert 'stop' in bench.names
        assert bench.record[-1]['p'] != bench.record[0]['p']

    limits = ExecutorLimits(timeout_factor=1.1, timeout_margin_s=0.2, safe_limit_s=30.0)
    on_arm(slow, body, limits)


@pytest.mark.parametrize('how', ['stop', 'cancel', 'close'])
def test_stops_from_above_stop_the_arm(slow: MockIndy, how: str) -> None:
    async def body(bench: IndyBench) -> None:
        task = bench.run('move_to(40,0,10);home;')
        await bench.until_moving()
        if how == 'cancel':
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        elif how == 'stop':
            assert await bench.executor.stop()
            assert (await task).ending.code == SegmentCode.CANCELED
        else:
            assert await bench.executor.close()
            assert (await task).ending.code == SegmentCode.SHUTDOWN
        assert 'stop' in bench.names
        await bench.until_still()
        assert bench.ends == [[400, 0, 100]]
        assert {event['category'] for event in bench.record if event['event'] == 'stop'} == {2}

    on_arm(slow, body, ExecutorLimits(safe_limit_s=30.0))


def test_a_killed_sdk_is_a_lost_robot_and_the_safe_action_starts_another(slow: MockIndy) -> None:
    async def body(bench: IndyBench) -> None:
        task = bench.run('move_to(40,0,10);')
        await bench.until_moving()
        process = bench.driver._arm._sdk._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        outcome = await task
        assert outcome.ending.code == SegmentCode.ROBOT_LOST
        assert 'the process of the SDK ended' in outcome.ending.message
        await bench.until_still()
        assert 'stop' in bench.names

    on_arm(slow, body, ExecutorLimits(safe_limit_s=30.0))


_VICTIM = """
import asyncio, sys
from dataclasses import replace
from support.robots.indy_bench import ARM, PATIENT, SCENE
from timely_llm_ros.drivers.indy import IndyDriver, IndyOptions
from timely_llm_ros.skills.language import parse

async def main():
    driver = IndyDriver(ARM, replace(PATIENT, host=sys.argv[1]))
    await driver.connect()
    await driver.execute(parse('move_to(40,0,10);', ARM, SCENE)[0], SCENE)

asyncio.run(main())
"""


def test_a_driver_killed_by_force_leaves_no_arm_moving(slow: MockIndy) -> None:
    async def body(bench: IndyBench) -> None:
        victim = subprocess.Popen(
            [sys.executable, '-c', _VICTIM, bench.mock.host],
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
            cwd=ROOT,
        )
        try:
            await bench.until_moving()
        finally:
            victim.kill()
            victim.wait()
        await bench.until_still()
        assert 'stop' in bench.names

    on_arm(slow, body)


def test_nobody_there() -> None:
    async def body() -> None:
        driver = IndyDriver(ARM, IndyOptions(host='127.1.2.3', link_limit_s=0.1))
        with pytest.raises(RobotUnavailableError, match=r'Indy at 127\.1\.2\.3: .*UNAVAILABLE'):
            await driver.connect()
        await driver.close()
        await driver.close()

    asyncio.run(body())


def test_without_the_sdk_one_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r'sdk_python .*: expected an executable Python'):
        asyncio.run(IndyDriver(ARM, IndyOptions(sdk_python=str(tmp_path / 'no'))).connect())
    monkeypatch.setenv('TIMELY_INDY_PYTHON', str(tmp_path))
    with pytest.raises(ConfigurationError, match='TIMELY_INDY_PYTHON'):
        asyncio.run(IndyDriver(ARM, IndyOptions()).connect())
    monkeypatch.delenv('TIMELY_INDY_PYTHON')
    monkeypatch.setattr('timely_llm_ros.drivers.indy.environment._ROOT', tmp_path)
    with pytest.raises(ConfigurationError, match='make setup-indy'):
        asyncio.run(IndyDriver(ARM, IndyOptions()).connect())


def test_mocks_say_what_is_wrong(
    mock: MockIndy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigurationError, match='it is gone'):
        MockIndy(tmp_path, host=mock.host)
    with pytest.raises(ConfigurationError, match="'dance': expected one of"):
        mock.command('dance')
    assert main(['--speed', '0']) == 1
    assert main(['--jitter', '2']) == 1
    assert main(['--index', '5']) == 1
    assert capsys.readouterr().err.splitlines() == [
        'error: speed 0.0: expected 0.001 to 1000',
        'error: jitter 2.0: expected 0 to 0.3',
        'error: index 5: expected 0 to 1',
    ]
    with pytest.raises(SystemExit):
        main(['--help'])
    assert 'refuse TEXT' in capsys.readouterr().out
