"""The demo's child processes end when and how they should."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from support.process_table import is_running

from timely_llm_ros.demo.processes import Children, ProcessEndedError, find_program
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LIMIT_S = 120.0
# They sleep for longer than anything here may take: none must seem to have been ended.
SLEEPER = [sys.executable, '-c', 'import time; print("up", flush=True); time.sleep(600)']
STUBBORN = [
    sys.executable,
    '-c',
    'import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print("up", flush=True); '
    'time.sleep(600)',
]


def until(condition: Callable[[], object]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end_s, f'not within {LIMIT_S:g} s'
        time.sleep(0.01)


def wait_for_text(path: Path, text: str) -> None:
    until(lambda: text in path.read_text())


async def test_a_process_that_ends_is_named_with_its_last_words(tmp_path: Path) -> None:
    children = Children(tmp_path)
    child = children.start('robot', [sys.executable, '-c', 'print("last words"); exit(7)'])
    child.process.wait(LIMIT_S)
    with pytest.raises(ProcessEndedError, match=r"'robot' ended with exit code 7") as caught:
        children.check()
    assert 'last words' in caught.value.log_tail
    await children.stop_all()


async def test_a_killed_process_is_told_by_its_signal(tmp_path: Path) -> None:
    children = Children(tmp_path)
    child = children.start('robot', SLEEPER)
    os.kill(child.process.pid, signal.SIGKILL)
    child.process.wait(LIMIT_S)
    with pytest.raises(ProcessEndedError, match='signal 9'):
        children.check()


async def test_stop_interrupts(tmp_path: Path) -> None:
    children = Children(tmp_path)
    child = children.start('robot', SLEEPER)
    wait_for_text(child.log, 'up')
    children.check()
    await children.stop(child, limit_s=LIMIT_S)
    assert child.process.returncode == -signal.SIGINT or child.process.returncode == 1
    children.check()


async def test_who_has_died_with_words_unread_is_stopped_like_others(tmp_path: Path) -> None:
    children = Children(tmp_path)
    child = children.start('robot', SLEEPER, pipes=True)
    assert child.process.stdin is not None
    child.process.kill()
    child.process.wait(LIMIT_S)
    child.process.stdin.write(b'never read')
    await children.stop_all()
    children.check()


async def test_stop_kills_what_does_not_listen(tmp_path: Path) -> None:
    children = Children(tmp_path)
    child = children.start('robot', STUBBORN)
    wait_for_text(child.log, 'up')
    await children.stop(child, limit_s=0.2)
    assert child.process.returncode == -signal.SIGTERM


async def test_input_and_output_can_be_pipes(tmp_path: Path) -> None:
    children = Children(tmp_path)
    child = children.start('cat', ['cat'], pipes=True)
    assert child.process.stdin is not None
    assert child.process.stdout is not None
    child.process.stdin.write(b'hello\n')
    child.process.stdin.flush()
    assert child.process.stdout.readline() == b'hello\n'
    await children.stop_all()
    assert child.process.returncode is not None


def test_children_do_not_outlive_their_parent(tmp_path: Path) -> None:
    code = (
        'import os, signal, sys\n'
        'from pathlib import Path\n'
        'from timely_llm_ros.demo.processes import Children\n'
        f'child = Children(Path({str(tmp_path)!r})).start("robot", {SLEEPER!r})\n'
        'print(child.process.pid, flush=True)\n'
        'os.kill(os.getpid(), signal.SIGKILL)\n'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=False)
    until(lambda: not is_running(int(done.stdout)))


def test_programs_are_found() -> None:
    for name in ('planner', 'executor', 'recorder'):
        python, path = find_program(name)
        assert python == sys.executable
        assert path.endswith(name)
    with pytest.raises(ConfigurationError, match="'nothing'"):
        find_program('nothing')
