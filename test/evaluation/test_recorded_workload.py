"""Workloads of recorded tasks: their costs are those recorded, everything else is free."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from benchmarks.recorder.synthetic_trace import write_trace
from benchmarks.workloads.experiment import System, check_all_succeeded, run_workload
from benchmarks.workloads.workload_file import loads, read_workload
from lrtrace.run import RecordedSegment, RecordedTask, Run
from lrtrace.storage.reader import Trace
from lrtrace.timeline import read_run
from timely_llm_ros.cli.main import main
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.evaluation.recorded_workload import (
    NO_UTILITY,
    NOT_SUCCEEDED,
    NOT_WHOLE,
    RecordedSpec,
    TaskPool,
    compose_recorded,
    task_pool,
)
from timely_llm_ros.evaluation.workload import dumps
from timely_llm_ros.utility import NORMAL, URGENT, TimeUtility

if TYPE_CHECKING:
    import random
    from pathlib import Path


@pytest.fixture(scope='module')
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder = tmp_path_factory.mktemp('traces')
    for seed in (1, 2):
        write_trace(folder / f'run_{seed}', seed=seed)
    return [read_run(Trace(folder / f'run_{seed}')) for seed in (1, 2)]


@pytest.fixture(scope='module')
def recorded(runs: list[Run]) -> TaskPool:
    return task_pool(runs)


def test_costs_are_those_of_the_recorded_tasks(runs: list[Run], recorded: TaskPool) -> None:
    tasks = [task for run in runs for task in run.tasks]
    assert len(recorded.tasks) == len(tasks)
    assert recorded.robots == 8
    assert recorded.groups == {'normal': NORMAL, 'urgent': URGENT}
    for found, task in zip(recorded.tasks, tasks, strict=True):
        assert (found.kind, found.tokens) == (task.kind, task.tokens)
        assert found.execution_s == pytest.approx(task.execution_s, abs=1e-5)
        assert found.group == ('urgent' if task.urgent else 'normal')
    costs = {(task.kind, task.group, task.segments) for task in recorded.tasks}
    spec = RecordedSpec(robots=50, duration_s=300.0, most_tasks_per_event=5)
    workload = compose_recorded(recorded, spec, seed=3)
    assert workload.robots == 50
    assert {(task.kind, task.group, task.segments) for task in workload.tasks} <= costs
    assert workload.tasks[-1].at_s <= 300.0


def test_recorded_arrivals_are_the_recorded_moments_runs_one_after_another(
    runs: list[Run], recorded: TaskPool
) -> None:
    workload = compose_recorded(recorded, RecordedSpec('recorded'), seed=0)
    assert workload.tasks == recorded.tasks
    first = len(runs[0].tasks)
    assert workload.tasks[0].at_s == 0
    assert workload.tasks[first].at_s == pytest.approx(runs[0].duration_s, abs=1e-6)
    short = compose_recorded(recorded, RecordedSpec('recorded', duration_s=10.0), seed=0)
    assert short.tasks == tuple(task for task in recorded.tasks if task.at_s <= 10.0)
    mixed = compose_recorded(recorded, RecordedSpec('recorded', mix={'look_for': 1}), seed=0)
    assert [task.at_s for task in mixed.tasks] == [task.at_s for task in workload.tasks]
    assert {task.kind for task in mixed.tasks} == {'look_for'}


def test_a_poisson_process_has_its_rate(recorded: TaskPool) -> None:
    spec = RecordedSpec(events_per_s=2.0, most_tasks_per_event=3, duration_s=100.0)
    counts = [len(compose_recorded(recorded, spec, seed=seed).tasks) for seed in range(60)]
    # 200 events of 2 tasks on average; the standard error is about 4.
    assert statistics.mean(counts) == pytest.approx(400, abs=20)
    # Without being told: as many per robot as recorded.
    counts = [
        len(compose_recorded(recorded, RecordedSpec(robots=80), seed=seed).tasks)
        for seed in range(30)
    ]
    assert statistics.mean(counts) == pytest.approx(10 * len(recorded.tasks), rel=0.05)


def test_the_mix_is_as_recorded_or_as_told(recorded: TaskPool) -> None:
    spec = RecordedSpec(events_per_s=50.0, duration_s=100.0)
    tasks = compose_recorded(recorded, spec, seed=1).tasks
    for kind, number in recorded.kinds.items():
        share = sum(task.kind == kind for task in tasks) / len(tasks)
        assert share == pytest.approx(number / len(recorded.tasks), abs=0.03)
    mix = {'look_for': 3.0, 'stack': 1.0, 'sort': 0.0}
    tasks = compose_recorded(recorded, replace(spec, mix=mix), seed=1).tasks
    assert {task.kind for task in tasks} == {'look_for', 'stack'}
    share = sum(task.kind == 'stack' for task in tasks) / len(tasks)
    assert share == pytest.approx(0.25, abs=0.03)


@examples(20)
@given(
    seed=st.integers(0, 10**6),
    shuffler=st.randoms(use_true_random=False),
    robots=st.integers(1, 200),
    most=st.integers(1, 6),
)
def test_it_is_determined_by_the_seed_and_not_by_the_order_of_tasks(
    recorded: TaskPool, seed: int, shuffler: random.Random, robots: int, most: int
) -> None:
    tasks = list(recorded.tasks)
    shuffler.shuffle(tasks)
    spec = RecordedSpec(robots=robots, duration_s=30.0, most_tasks_per_event=most, events_per_s=1)
    workload = compose_recorded(recorded, spec, seed=seed)
    assert compose_recorded(replace(recorded, tasks=tuple(tasks)), spec, seed=seed) == workload
    assert loads(dumps(workload)) == workload


def test_it_can_be_served(recorded: TaskPool) -> None:
    workload = compose_recorded(recorded, RecordedSpec(robots=4, duration_s=20.0), seed=1)
    check_all_succeeded(run_workload(workload, System('segmented', policy='utility')))


def _task(**values: Any) -> RecordedTask:
    segment = RecordedSegment(0, tokens=5, execution_s=1.5)
    task = RecordedTask('id', 'drone_1', 'look', 'look', 1.0, 1.0, 0.5, -1.0, 1.5, {0: segment})
    task.status, task.tokens = 4, 5
    for name, value in values.items():
        setattr(task, name, value)
    return task


@pytest.mark.parametrize(
    ('bad', 'reason'),
    [
        ({'status': 5}, NOT_SUCCEEDED),
        ({'error_code': 8}, NOT_SUCCEEDED),
        ({'segments': {}}, NOT_WHOLE),
        ({'segments': {1: RecordedSegment(1, tokens=5, execution_s=1.0)}}, NOT_WHOLE),
        ({'segments': {0: RecordedSegment(0, tokens=0, execution_s=1.0)}}, NOT_WHOLE),
        ({'segments': {0: RecordedSegment(0, tokens=4)}}, NOT_WHOLE),
        ({'peak': 0.0}, NO_UTILITY),
    ],
)
def test_tasks_that_are_not_whole_are_left_out(bad: dict[str, Any], reason: str) -> None:
    run = Run('run', [_task(), _task(**bad)], duration_s=10.0)
    found = task_pool([run])
    assert len(found.tasks) == 1
    assert found.left_out == {reason: 1}
    # A time utility that has no name is called what it is.
    assert found.groups == {'0.5 s, -1.0 per s, 1.5': TimeUtility(0.5, -1.0, 1.5)}
    with pytest.raises(ConfigurationError, match=r'1 recorded tasks .*: expected one at least'):
        task_pool([replace(run, tasks=[_task(**bad)])])


@pytest.mark.parametrize(
    ('spec', 'says'),
    [
        ({'robots': 0}, 'robots 0: expected a finite number > 0'),
        ({'events_per_s': float('nan')}, 'events_per_s nan: expected a finite number > 0'),
        ({'duration_s': float('inf')}, 'duration_s inf'),
        ({'arrivals': 'bursts'}, "arrivals 'bursts': expected one of poisson, recorded"),
        ({'arrivals': 'recorded', 'events_per_s': 1.0}, 'expected none with recorded arrivals'),
        ({'arrivals': 'recorded', 'most_tasks_per_event': 2}, 'none with recorded arrivals'),
        ({'mix': {'look_for': -1.0}}, "mix: 'look_for' -1.0: expected a finite weight"),
        ({'mix': {'look_for': 0.0}}, 'expected a weight above 0'),
        ({'mix': {'fly': 1.0}}, "mix: kind 'fly': expected one of those recorded: avoid_injury,"),
        ({'duration_s': 1e-9}, 'no task comes within it: expected a longer one'),
        ({'events_per_s': 1e9}, 'expected fewer than 500000 tasks'),
    ],
)
def test_a_spec_out_of_range_is_refused(
    recorded: TaskPool, spec: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        compose_recorded(recorded, RecordedSpec(**spec), seed=0)
    assert says in str(caught.value)


def test_the_command_writes_the_same_file_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, output = str(write_trace(tmp_path / 'run').folder), tmp_path / 'w.json'
    options = ['--robots', '12', '--rate', '0.5', '--tasks-per-event', '2', '--duration', '60']
    options += ['--mix', 'look_for=2', '--mix', 'sort=1', '--seed', '5', '--name', 'mine']
    assert main(['compose', trace, *options, '--out', str(output)]) == 0
    printed = capsys.readouterr().out
    workload = read_workload(output)
    assert f'{output}: {len(workload.tasks)} tasks for 12 robots' in printed
    assert (workload.name, workload.seed) == ('mine', 5)
    text = output.read_text()
    assert main(['compose', trace, *options, '-o', str(output)]) == 1
    assert 'exists: expected a new file, or --force' in capsys.readouterr().err
    assert main(['compose', trace, *options, '-o', str(output), '--force']) == 0
    assert output.read_text() == text
    assert main(['compose', trace, '--arrivals', 'recorded', '-o', str(tmp_path / 'r.json')]) == 0
    assert read_workload(tmp_path / 'r.json').robots == 8


@pytest.mark.parametrize(
    ('options', 'says'),
    [
        (['--mix', 'look_for'], "mix 'look_for': expected KIND=WEIGHT"),
        (['--mix', 'look_for=x'], "mix 'look_for=x': expected KIND=WEIGHT"),
        (['--mix', '=1'], "mix '=1': expected KIND=WEIGHT"),
        (['--mix', 'sort=1', '--mix', 'sort=2'], "mix 'sort=2': expected each kind once"),
        (['--robots', '-3'], 'robots -3: expected a finite number > 0'),
        (['--name', ''], "name '': expected some text"),
    ],
)
def test_wrong_options_are_errors(
    options: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['compose', 'nothing', '-o', str(tmp_path / 'w.json'), *options]) == 1
    assert says in capsys.readouterr().err


def test_no_trace_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['compose', str(tmp_path / 'no'), '-o', str(tmp_path / 'w.json')]) == 1
    assert "no': expected a rosbag2 folder or an MCAP file" in capsys.readouterr().err
