"""The wall clock is set while robots work: nothing but stamps may notice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.process_table import children
from support.ros.programs import LIMIT_S, PYTHONPATH, ROOT, Program, wait_for
from support.ros.ros_client import SUCCEEDED
from timely_llm_ros.action import PlanTask
from timely_llm_ros.msg import TaskEvent

from benchmarks.attack.clocks import SteppingClocks
from lrtrace.storage.reader import Trace
from lrtrace.timeline import read_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.ros.fleet import Fleet

HOUR_NS = 3_600_000_000_000
STEPS_H = (1, -1, 0)
SOME = 'delay(200);' * 5


@pytest.fixture
def set_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set the wall clock of the programs that are started from now on off by hours, at once."""
    clocks = SteppingClocks(tmp_path)
    settings = clocks.settings('wall')
    assert settings, 'expected a C compiler'
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    # Confined to this machine, rmw_fastrtps takes shared memory whatever anybody says.
    monkeypatch.delenv('ROS_AUTOMATIC_DISCOVERY_RANGE')
    return lambda hours: clocks.step('wall', hours * 3600)


@pytest.fixture
def fleet(start_fleet: Callable[..., Fleet], set_clock: Callable[[int], None]) -> Fleet:
    return start_fleet(executor={'time_scale': 1.0})


@pytest.fixture
def recorder(fleet: Fleet, tmp_path: Path) -> Iterator[Program]:
    parameters = {'output': str(tmp_path / 'trace'), 'robots': ['drone_1']}
    program = Program('recorder', tmp_path, parameters, namespace=fleet.namespace)
    wait_for(lambda: 'recording' in program.output, 'recorder')

    def heard() -> bool:
        # The planner may learn of the recorder only after its first words.
        assert fleet.plan('hover;').result()[0] == SUCCEEDED
        return Trace(tmp_path / 'trace').summary().counts.get(fleet.name('task_events'), 0) > 0

    wait_for(heard, 'a task in the trace')
    yield program
    program.close()


def test_steps_of_an_hour_are_no_loss_no_alarm_and_no_delay(
    fleet: Fleet, recorder: Program, set_clock: Callable[[int], None], tmp_path: Path
) -> None:
    goals = []
    for hours in STEPS_H:
        flying = fleet.plan(SOME)
        fleet.wait_event(flying, TaskEvent.SEGMENT_STARTED)
        set_clock(hours)
        goals += [flying, fleet.plan('hover;', when_busy=PlanTask.Goal.BUSY_QUEUE)]
        for goal in goals[-2:]:
            assert goal.result()[0] == SUCCEEDED
            fleet.wait_event(goal, TaskEvent.ENDED)
    assert [entry['event'] for entry in fleet.journal()].count('safe') == 1  # Of its start.
    for program in (fleet.planner, *fleet.executors):
        assert program is not None
        assert 'no sign of life' not in program.output
    recorder.close()
    trace = Trace(tmp_path / 'trace')
    assert trace.summary().damage == ''
    events = [message for message in trace.messages() if message.topic.endswith('task_events')]
    recorded = [message.value.event for message in events]
    assert recorded == [event.event for event in fleet.events[-len(events) :]]
    # Log times go on evenly, in the order in which things happened.
    times_ns = [message.log_ns for message in events]
    assert times_ns == sorted(times_ns)
    assert times_ns[-1] - times_ns[0] < HOUR_NS
    run = read_run(trace)
    assert run.damage == ''
    assert [task.succeeded for task in run.tasks[-len(goals) :]] == [True] * len(goals)


def test_a_planner_that_is_killed_while_the_clock_is_set_back_is_missed(
    fleet: Fleet, set_clock: Callable[[int], None]
) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, str(ROOT / 'scripts' / 'timely-llm'), 'plan', 'drone_1', SOME * 6),
            *('--namespace', f'/{fleet.namespace}', '--wait', str(LIMIT_S)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {'PYTHONPATH': PYTHONPATH, 'PYTHONUNBUFFERED': '1'},
    )
    assert process.stdout is not None
    while 'executing' not in process.stdout.readline():
        assert process.poll() is None
    set_clock(-1)
    assert fleet.planner is not None
    fleet.planner.signal(signal.SIGKILL)
    fleet.wait_safe()
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert 'no sign of life' in err


def test_no_segment_is_lost_while_a_simulated_clock_stands_at_zero(
    start_fleet: Callable[..., Fleet],
) -> None:
    fleet = start_fleet(planner={'use_sim_time': True})
    assert fleet.plan(SOME).result()[0] == SUCCEEDED
    wait_for(lambda: len(fleet.segments) == 5, 'segments')
    stamps = [segment.header.stamp for segment in fleet.segments]
    assert {(stamp.sec, stamp.nanosec) for stamp in stamps} == {(0, 0)}


def test_programs_speak_without_shared_memory(fleet: Fleet, recorder: Program) -> None:
    """Its waits follow the wall clock, and its files stay behind."""
    assert fleet.planner is not None
    for program in (fleet.planner, *fleet.executors, recorder):
        assert not shared_files(program.pid)


def shared_files(pid: int) -> set[str]:
    """Return what a process and its children map of Fast DDS's files in shared memory."""
    lines = Path(f'/proc/{pid}/maps').read_text(encoding='utf-8').splitlines()
    own = {line.split()[-1] for line in lines if '/fastdds_' in line}
    return own.union(*map(shared_files, children(pid)))
