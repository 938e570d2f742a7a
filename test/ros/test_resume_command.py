"""A planner is killed amid its tasks; what its trace holds open is done by the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.ros.programs import LIMIT_S, PYTHONPATH, ROOT, Program, wait_for
from support.ros.ros_client import SUCCEEDED
from timely_llm_ros.msg import TaskEvent

from lrtrace.storage.reader import Trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.ros.fleet import Fleet

LONG = 'takeoff;delay(10000);land;'


def resume(trace: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / 'scripts' / 'timely-llm'), 'resume', *arguments, str(trace)],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
        env=os.environ | {'PYTHONPATH': PYTHONPATH},
    )  # fmt: skip


@pytest.mark.parametrize('end_of_recorder', [signal.SIGINT, signal.SIGKILL])
def test_open_tasks_are_done_by_the_next_planner(
    start_fleet: Callable[..., Fleet], tmp_path: Path, end_of_recorder: signal.Signals
) -> None:
    fleet = start_fleet(
        robots={'drone_1': 'tello', 'drone_2': 'tello'}, executor={'time_scale': 0.3}
    )
    trace = tmp_path / 'trace'
    recorder = Program(
        'recorder',
        tmp_path,
        {'output': str(trace), 'robots': ['drone_1', 'drone_2'], 'flush_period_s': 0.05},
        namespace=fleet.namespace,
    )
    # A scheduler's state in it: then the planner knows of the recorder.
    topic = fleet.name('scheduler_state')

    def hears() -> bool:
        return (trace / 'metadata.yaml').is_file() and Trace(trace).summary().counts[topic] > 0

    wait_for(hears, 'a trace that hears the planner')
    assert fleet.plan('takeoff;land;', 'drone_2').result()[0] == SUCCEEDED
    goal = fleet.plan(LONG)
    fleet.wait_started('delay(10000)')
    fleet.wait_event(goal, TaskEvent.SEGMENT_STARTED)
    assert fleet.planner is not None
    fleet.planner.process.kill()
    fleet.planner.wait()
    events = fleet.name('task_events')
    wait_for(lambda: Trace(trace).summary().counts[events] >= 8, 'events in the trace')
    recorder.signal(end_of_recorder)
    expected = 0 if end_of_recorder == signal.SIGINT else -signal.SIGKILL
    assert recorder.wait() == expected, recorder.output
    listed = resume(trace, '--dry-run')
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.splitlines()[0] == '1 of 2 tasks had not ended'
    assert LONG in listed.stdout
    nobody = resume(trace, '--namespace', '/nobody', '--wait', '0.2')
    assert nobody.returncode == 3
    assert 'no planner answers' in nobody.stderr
    fleet.wait_safe()
    fleet.restart_planner()
    done = resume(trace, '--namespace', f'/{fleet.namespace}', '--wait', '60')
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'drone_1  succeeded  takeoff;' in done.stdout
