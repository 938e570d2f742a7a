"""Two processes that watch each other, killed for real."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.process_table import is_running, may_take_precedence, policies

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.execution.guard import EXIT_HUNG, run_guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120.0


class Program:
    """The guarded program, once its worker drives the robot."""

    def __init__(self, journal: Path, mode: str) -> None:
        self.journal = journal
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / 'test/support/robots/guarded_program.py'), journal, mode],
            cwd=ROOT,
            env={**os.environ, 'PYTHONPATH': str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        words = self.process.stdout.readline().split()
        self.guard, self.worker = int(words[1]), int(words[3])
        assert self.guard == self.process.pid

    def notes(self) -> list[dict[str, Any]]:
        if not self.journal.exists():
            return []
        return [json.loads(line) for line in self.journal.read_text().splitlines()]

    def safe_from(self) -> list[int]:
        return [note['pid'] for note in self.notes() if note['event'] == 'safe']

    def stop(self) -> None:
        for pid in (self.worker, self.guard):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate(timeout=LIMIT_S)


def until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline_s, 'it did not happen'
        time.sleep(0.01)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Program]]:
    programs: list[Program] = []

    def start(mode: str) -> Program:
        programs.append(Program(tmp_path / 'journal', mode))
        return programs[-1]

    yield start
    for program in programs:
        program.stop()


@pytest.mark.parametrize('mode', ['run', 'many files'])
def test_the_guard_makes_the_robot_safe_when_the_worker_is_killed(
    start: Callable[[str], Program], mode: str
) -> None:
    program = start(mode)
    until(program.notes)
    assert program.safe_from() == []
    os.kill(program.worker, signal.SIGKILL)
    assert program.process.wait(LIMIT_S) == 128 + signal.SIGKILL
    assert program.safe_from() == [program.guard]


@pytest.mark.parametrize('mode', ['run', 'stubborn'])
def test_the_worker_makes_the_robot_safe_when_the_guard_is_killed(
    start: Callable[[str], Program], mode: str
) -> None:
    program = start(mode)
    until(program.notes)
    os.kill(program.guard, signal.SIGKILL)
    until(lambda: not is_running(program.worker))
    assert set(program.safe_from()) == {program.worker}


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_guard_ends_both_in_good_order(
    start: Callable[[str], Program], number: signal.Signals
) -> None:
    program = start('run')
    until(program.notes)
    os.kill(program.guard, number)
    assert program.process.wait(LIMIT_S) == 0
    assert program.safe_from() == [program.worker]
    assert not is_running(program.worker)


def test_the_guard_goes_before_other_work_where_it_may(start: Callable[[str], Program]) -> None:
    """Not what it starts: a worker that is not ready yet has no precedence."""
    program = start('run')
    until(program.notes)
    normal = os.sched_getscheduler(0)
    precedence = os.SCHED_RR | os.SCHED_RESET_ON_FORK
    assert policies(program.guard) == [precedence if may_take_precedence() else normal]
    assert set(policies(program.worker)) == {normal}


def test_a_worker_that_hangs_is_killed(start: Callable[[str], Program]) -> None:
    program = start('beat')
    until(program.notes)
    os.kill(program.worker, signal.SIGSTOP)
    assert program.process.wait(LIMIT_S) == EXIT_HUNG
    assert program.safe_from() == [program.guard]


def test_a_worker_that_raises_is_followed_by_the_safe_action(
    start: Callable[[str], Program],
) -> None:
    program = start('crash')
    assert program.process.wait(LIMIT_S) == 1
    assert program.safe_from()[-1] == program.guard
    assert program.process.stderr is not None
    assert 'crashed on purpose' in program.process.stderr.read()


def test_a_worker_that_cannot_make_the_robot_safe_leaves_it_to_the_guard(
    start: Callable[[str], Program],
) -> None:
    program = start('fail')
    until(program.notes)
    os.kill(program.guard, signal.SIGTERM)
    assert program.process.wait(LIMIT_S) == 1
    assert program.safe_from() == [program.guard]


def test_a_worker_without_a_guard_tries_again_before_it_leaves(
    start: Callable[[str], Program],
) -> None:
    program = start('fail')
    until(program.notes)
    os.kill(program.guard, signal.SIGKILL)
    until(lambda: not is_running(program.worker))
    assert program.safe_from() == [program.worker]


def test_a_worker_that_ends_well_ends_the_guard(start: Callable[[str], Program]) -> None:
    program = start('finish')
    assert program.process.wait(LIMIT_S) == 0
    assert program.safe_from() == [program.worker]


def test_a_program_with_threads_is_refused() -> None:
    async def make_safe() -> None:
        """Never called."""

    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, name='early')
    thread.start()
    try:
        with pytest.raises(ConfigurationError, match='early'):
            run_guarded(lambda _: 0, make_safe)
    finally:
        ended.set()
        thread.join()


REFUSED = """
import sys
from timely_llm_ros.execution.guard import run_guarded

async def make_safe():
    print('safe action', flush=True)

sys.exit(run_guarded(lambda guard: 2, make_safe, at_risk=lambda: sys.argv[1] == 'touched'))
"""


@pytest.mark.parametrize('touched', [False, True])
def test_a_robot_that_has_heard_nothing_is_not_made_safe(touched: bool) -> None:
    done = subprocess.run(
        [sys.executable, '-c', REFUSED, 'touched' if touched else 'untouched'],
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 2
    assert done.stdout == ('safe action\n' if touched else '')
    assert ('making the robot safe' in done.stderr) == touched


PREPARED = """
import os, select, sys
from timely_llm_ros.execution.guard import run_guarded

reader, writer = os.pipe()

def work(guard):
    for _ in range(2):
        guard.beat(100.0)
        if not select.select([reader], [], [], 30.0)[0]:
            return 1
        os.read(reader, 1)
    return 0

async def make_safe():
    pass

sys.exit(run_guarded(work, make_safe, prepare=lambda: os.write(writer, b'.')))
"""


def test_the_guard_may_prepare_at_each_sign_of_life() -> None:
    """What there is to prepare may be known only then."""
    done = subprocess.run(
        [sys.executable, '-c', PREPARED],
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0
