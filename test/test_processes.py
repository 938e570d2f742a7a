"""A process ends with the one that started it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from support.process_table import wait_gone

CHILD = (
    'import signal, sys, time\n'
    'from timely_llm_ros.processes import end_with_parent\n'
    'end_with_parent(signal.SIGTERM, parent_pid=int(sys.argv[1]))\n'
    'print("up", flush=True)\n'
    'time.sleep(600)\n'
)
PARENT = (
    'import os, signal, subprocess, sys\n'
    'child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())],\n'
    '                         stdout=subprocess.PIPE)\n'
    'assert child.stdout.readline() == b"up\\n"\n'
    'print(child.pid, flush=True)\n'
    'os.kill(os.getpid(), signal.SIGKILL)\n'
)


@pytest.mark.skipif(sys.platform != 'linux', reason='only Linux has the signal')
def test_a_child_gets_the_signal_when_its_parent_is_killed() -> None:
    done = subprocess.run(
        [sys.executable, '-c', PARENT, CHILD], stdout=subprocess.PIPE, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL
    wait_gone([int(done.stdout)])


@pytest.mark.skipif(sys.platform != 'linux', reason='only Linux has the signal')
def test_a_child_whose_parent_has_ended_already_gets_it_at_once() -> None:
    # No process's parent is itself.
    code = (
        'import os, signal\n'
        'from timely_llm_ros.processes import end_with_parent\n'
        'end_with_parent(signal.SIGTERM, parent_pid=os.getpid())\n'
    )
    done = subprocess.run([sys.executable, '-c', code], timeout=60, check=False)
    assert done.returncode == -signal.SIGTERM
