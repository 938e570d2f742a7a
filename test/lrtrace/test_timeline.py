"""A trace's timeline and figures are those of the run that was recorded."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.traces.small_trace import write_small_trace

from benchmarks.recorder.synthetic_trace import messages, workload, write_trace
from lrtrace.run import Run, natural_key
from lrtrace.statistics import by_kind, figures, percentile, same_tasks
from lrtrace.storage.reader import Trace
from lrtrace.timeline import read_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope='module')
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder = tmp_path_factory.mktemp('traces')
    found = []
    for whole in (False, True):
        write_trace(folder / f'run{whole}', whole=whole)
        found.append(read_run(Trace(folder / f'run{whole}')))
    return found


def test_runs_name_themselves(runs: list[Run]) -> None:
    assert [run.label for run in runs] == ['segmented, utility', 'whole plan, fcfs']
    assert {run.engine for run in runs} == {'torch'}


def test_a_planner_of_another_namespace_is_not_that_of_the_run(tmp_path: Path) -> None:
    folder = write_small_trace(tmp_path / 'trace', foreign_planner='/site_b')
    run = read_run(Trace(folder))
    assert (run.mode, run.policy, run.engine) == ('segmented', 'edf', 'torch')
    assert {sample.running for sample in run.samples} == {1}


def test_what_the_planner_told_comes_before_what_the_recorder_noted(tmp_path: Path) -> None:
    notes = {'mode': 'stream', 'policy': 'fcfs'}
    run = read_run(Trace(write_small_trace(tmp_path / 'trace', notes=notes)))
    assert (run.mode, run.policy, run.engine) == ('segmented', 'edf', 'torch')


def test_every_task_is_there_with_its_times(runs: list[Run]) -> None:
    plans = workload(1, 4)
    list(messages(plans, whole=False))
    by_id = {bytes(plan.plan_id.uuid).hex(): plan for plan in plans}
    origin_s = min(plan.received_s for plan in plans)
    assert {task.plan_id for task in runs[0].tasks} == set(by_id)
    for task in runs[0].tasks:
        plan = by_id[task.plan_id]
        assert task.received_s == pytest.approx(plan.received_s - origin_s, abs=1e-6)
        assert (task.robot, task.instruction) == (plan.robot, plan.instruction)
        assert task.urgent == plan.urgent
        assert [s.text for s in task.ordered_segments] == [f'{call};' for call in plan.calls]
        assert task.succeeded


def test_what_was_told_of_tasks_that_were_taken_and_of_those_refused(tmp_path: Path) -> None:
    run = read_run(Trace(write_small_trace(tmp_path / 'trace', refused='it would be too late')))
    assert {task.told_response_s for task in run.tasks} == {0.05}
    assert {task.promised_response_s for task in run.tasks} == {0.1}
    found = figures(run.tasks)
    assert found.told_s == 0.05
    assert found.kept == 1.0
    (refused,) = run.refused
    assert refused.why == 'it would be too late'
    assert (refused.robot, refused.kind) == ('drone_1', 'check_on')
    assert refused.instruction == 'is the cat well'
    assert refused.at_s == pytest.approx(0.1)


def test_nothing_is_said_to_have_been_told_where_nothing_was(runs: list[Run]) -> None:
    assert {task.told_response_s for task in runs[0].tasks} == {None}
    assert math.isnan(figures(runs[0].tasks).kept)


def test_times_add_up(runs: list[Run]) -> None:
    for run in runs:
        for task in run.tasks:
            assert task.response_s is not None
            assert task.response_parts_s is not None
            assert sum(task.response_parts_s) == pytest.approx(task.response_s, abs=2e-3)
            assert task.completion_s == pytest.approx(task.waiting_s + task.execution_s)
            first = task.segments[0]
            assert first.started_s == pytest.approx(task.received_s + task.response_s, abs=1e-6)
            for segment in task.ordered_segments:
                assert segment.generated_s is not None
                assert segment.started_s is not None
                assert segment.ended_s is not None
                assert segment.generated_s <= segment.started_s <= segment.ended_s
        assert run.duration_s >= max(task.ended_s or 0.0 for task in run.tasks)


def test_runs_of_the_same_tasks_are_told_apart_from_others(runs: list[Run], tmp_path: Path) -> None:
    assert same_tasks(runs)
    write_trace(tmp_path / 'other', seed=2)
    assert not same_tasks([runs[0], read_run(Trace(tmp_path / 'other'))])


def test_figures_say_that_segments_respond_sooner(runs: list[Run]) -> None:
    segmented, whole = (figures(run.tasks) for run in runs)
    assert segmented.median_response_s < whole.median_response_s / 2
    assert segmented.late < whole.late
    assert segmented.mean_utility > whole.mean_utility
    assert segmented.first_tokens < whole.first_tokens
    assert segmented.whole_tokens == whole.whole_tokens
    assert sum(one.tasks for one in by_kind(runs[0]).values()) == segmented.tasks


def test_urgent_kinds_come_first(runs: list[Run]) -> None:
    urgent = [one.urgent for one in by_kind(runs[0]).values()]
    assert urgent == sorted(urgent, reverse=True)


def test_a_trace_cut_off_in_the_middle_has_open_tasks(tmp_path: Path) -> None:
    writer = write_trace(tmp_path / 'run', close=False)
    writer.flush()
    run = read_run(Trace(tmp_path / 'run'))
    assert 'footer' in run.damage
    path = tmp_path / 'run' / 'run_0.mcap'
    write_trace(tmp_path / 'short', bursts=1)
    assert path.stat().st_size > 0
    writer.close()


def test_no_tasks_no_figures() -> None:
    empty = figures([])
    assert empty.tasks == 0
    assert math.isnan(empty.median_response_s)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 1))
def test_percentiles_lie_within(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert min(values) - 1e-6 <= found <= max(values) + 1e-6
    assert percentile(values, 0.0) == min(values)
    assert percentile(values, 1.0) == max(values)


def test_names_sort_by_number() -> None:
    assert sorted(['arm_10', 'arm_9', 'drone', 'arm_1'], key=natural_key) == [
        'arm_1',
        'arm_9',
        'arm_10',
        'drone',
    ]


@given(st.lists(st.text(max_size=8)))
def test_any_names_can_be_sorted(names: list[str]) -> None:
    assert sorted(sorted(names, key=natural_key)) == sorted(names)
