"""``timely-llm plan`` against a real planner, and the demo without a model, from start to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.process_table import children, command_line, is_running
from support.ros.programs import LIMIT_S, PYTHONPATH, ROOT, Program, wait_for

from lrtrace.storage.reader import Trace
from lrtrace.timeline import read_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.ros.fleet import Fleet

COMMAND = [sys.executable, str(ROOT / 'scripts' / 'timely-llm')]


@pytest.fixture(scope='module')
def fleet(start_fleet: Callable[..., Fleet]) -> Fleet:
    return start_fleet(robots={'drone_1': 'tello'}, executor={'time_scale': 0.1})


def plan(fleet: Fleet, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *COMMAND,
            'plan',
            *arguments,
            '--namespace',
            f'/{fleet.namespace}',
            '--wait',
            str(LIMIT_S),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {'PYTHONPATH': PYTHONPATH},
    )


def test_a_task_is_followed_to_its_end(fleet: Fleet) -> None:
    done = plan(fleet, 'drone_1', 'takeoff;hover;')
    out, err = done.communicate(timeout=LIMIT_S)
    assert done.returncode == 0, err
    assert 'drone_1: takeoff;hover;' in out
    assert 'executing' in out
    assert 'status        succeeded' in out


def test_the_result_can_be_json(fleet: Fleet) -> None:
    done = plan(fleet, 'drone_1', 'hover;', '--json', '--kind', 'test')
    out, err = done.communicate(timeout=LIMIT_S)
    assert done.returncode == 0, err
    result = json.loads(out)
    assert (result['status'], result['segments']) == ('succeeded', 1)


def test_a_refused_task_says_why(fleet: Fleet) -> None:
    done = plan(fleet, 'drone_9', 'hover;')
    _, err = done.communicate(timeout=LIMIT_S)
    assert done.returncode == 1
    assert 'refused' in err
    assert 'drone_9' in err


@pytest.mark.parametrize('moment', ['drone_1: ', 'executing', 'delay(10000)\n'])
def test_ctrl_c_cancels_the_task(fleet: Fleet, moment: str) -> None:
    """At the first of these moments the planner has not even accepted it."""
    done = plan(fleet, 'drone_1', 'repeat(10){delay(10000);};' * 10)
    assert done.stdout is not None
    for line in done.stdout:
        if moment in line:
            break
    done.send_signal(signal.SIGINT)
    out, err = done.communicate(timeout=LIMIT_S)
    assert done.returncode == 130, err
    assert 'status        canceled' in out


def test_no_planner_is_said() -> None:
    done = subprocess.run(
        [*COMMAND, 'plan', 'drone_1', 'hover;', '--namespace', '/nobody_here', '--wait', '1'],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 3
    assert 'no planner answers' in done.stderr
    assert '--wait 60' in done.stderr


def test_who_waits_for_a_planner_is_told_and_may_give_up() -> None:
    done = subprocess.Popen(
        [*COMMAND, 'plan', 'drone_1', 'hover;', '--namespace', '/nobody_here', '--wait', '600'],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.stderr is not None
    assert 'looking for a planner in ROS domain' in done.stderr.readline()
    done.send_signal(signal.SIGINT)
    _, err = done.communicate(timeout=LIMIT_S)
    assert done.returncode == 130, err
    assert 'nothing was sent' in err


def test_a_planner_that_still_loads_is_said_to_be_there(tmp_path: Path) -> None:
    # Nobody listens on that port: it waits for a server.
    parameters = {'engine': 'openai', 'server_urls': ['http://127.0.0.1:9']}
    planner = Program('planner', tmp_path, parameters, namespace='still_loads')

    def said() -> str:
        done = subprocess.run(
            [*COMMAND, 'plan', 'drone_1', 'hover;', '--namespace', '/still_loads', '--wait', '2'],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 3, done.stderr
        return done.stderr

    try:
        wait_for(lambda: 'loading engine openai' in planner.output, 'its loading')
        # On a busy machine they may need longer to meet.
        wait_for(lambda: 'a planner is there' in said(), 'what the planner does')
    finally:
        planner.close()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        with (tmp_path / 'out.txt').open('w') as out:
            process = subprocess.Popen(
                [*COMMAND, 'demo', '--engine', 'simulated', '--drivers', 'simulated',
                 '--robots', '2', '--headless', '--output', str(tmp_path / 'demo'), *arguments],
                stdout=out, stderr=subprocess.STDOUT, text=True, cwd=tmp_path,
                env=os.environ | {'PYTHONPATH': PYTHONPATH},
            )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(LIMIT_S)


def segments_started(folder: Path) -> int:
    path = folder / 'demo' / 'segmented'
    files = list(path.glob('*.mcap'))
    if not any(file.stat().st_size for file in files):
        return 0  # The recorder has not written its first chunk yet.
    return sum(len(task.segments) for task in read_run(Trace(path)).tasks)


def test_the_demo_ends_by_itself_with_everything_done(
    demo: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    assert demo('--tasks', '2').wait(5 * LIMIT_S) == 0, (tmp_path / 'out.txt').read_text()
    text = (tmp_path / 'out.txt').read_text()
    assert 'Median response' in text
    assert 'tasks with a time budget' in text
    assert 'watch   http://127.0.0.1:' in text
    # In both runs; the one task with a budget that can be kept succeeded.
    assert ' '.join(text.split()).count('1 refused as it should be') == 2
    assert (tmp_path / 'demo' / 'report.html').is_file()
    for name in ('segmented', 'whole_plan'):
        run = read_run(Trace(tmp_path / 'demo' / name))
        assert run.mode == name
        assert run.damage == ''
        assert [task.succeeded for task in run.tasks] == [True, True]


def test_ctrl_c_in_the_demo_ends_every_process(
    demo: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = demo('--tasks', '24')
    wait_for(lambda: segments_started(tmp_path), 'a segment')
    started = children(process.pid)
    started += [grandchild for pid in started for grandchild in children(pid)]
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 130
    assert 'robots are safe' in (tmp_path / 'out.txt').read_text()
    assert Trace(tmp_path / 'demo' / 'segmented').summary().damage == ''
    # Four programs and the workers of two of them.
    assert len(started) >= 6
    assert not any(map(is_running, started))


def test_a_process_that_dies_ends_the_demo(
    demo: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = demo('--tasks', '24')
    wait_for(lambda: segments_started(tmp_path), 'a segment')
    (recorder,) = [pid for pid in children(process.pid) if 'scripts/recorder' in command_line(pid)]
    os.kill(recorder, signal.SIGKILL)
    assert process.wait(LIMIT_S) == 1
    assert "process 'segmented.recorder' was killed by signal 9" in (
        (tmp_path / 'out.txt').read_text().replace('\n', ' ')
    )
