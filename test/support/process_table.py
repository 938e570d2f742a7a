"""Other processes, as Linux tells of them in ``/proc``: no tool has to be installed for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    return _state(pid) not in ('', 'Z', 'X')


def children(pid: int) -> list[int]:
    """Process ids of the direct children that run, oldest first."""
    own = [other for other in _all() if _stat(other)[1:2] == [str(pid)] and is_running(other)]
    return sorted(own, key=lambda other: (_started(other), other))


def tree(pid: int) -> list[int]:
    """Process ids of a process and everything below it."""
    found = [pid]
    for other in found:  # grows meanwhile
        found += children(other)
    return found


def policies(pid: int) -> list[int]:
    """The scheduling policy of each thread of a process, the main one's first."""
    threads = sorted(int(task.name) for task in Path(f'/proc/{pid}/task').iterdir())
    return [os.sched_getscheduler(thread) for thread in threads]


def may_take_precedence() -> bool:
    """Whether the system allows this user a real-time priority."""
    asked = [sys.executable, '-c', 'import os; os.sched_setscheduler(0, 2, os.sched_param(1))']
    return subprocess.run(asked, stderr=subprocess.DEVNULL, check=False).returncode == 0


def wait_gone(pids: list[int], limit_s: float = 60.0) -> None:
    """Wait until all of them have ended; kill those that have not by then.

    Raises:
        AssertionError: There were such.
    """
    end_s = time.monotonic() + limit_s
    while left := [pid for pid in pids if is_running(pid)]:
        if time.monotonic() > end_s:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            raise AssertionError(f'processes {left}: expected them to end within {limit_s:g} s')
        time.sleep(0.05)


def command_line(pid: int) -> str:
    """Its arguments, separated by spaces; empty if it is gone."""
    try:
        return Path(f'/proc/{pid}/cmdline').read_bytes().replace(b'\0', b' ').decode().strip()
    except OSError:
        return ''


def _all() -> list[int]:
    return sorted(int(entry.name) for entry in Path('/proc').iterdir() if entry.name.isdigit())


def _stat(pid: int) -> list[str]:
    """The fields after the name: state, parent, ..."""
    try:
        text = Path(f'/proc/{pid}/stat').read_text(encoding='utf-8', errors='replace')
    except OSError:
        return []
    return text.rpartition(')')[2].split()


def _state(pid: int) -> str:
    return next(iter(_stat(pid)), '')


def _started(pid: int) -> int:
    """When it started, in clock ticks since the machine did."""
    fields = _stat(pid)
    return int(fields[19]) if fields else 0
