"""Replays: a run as it was comes out as it was, and what-ifs tell what would have happened."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.recorder.virtual_trace import apart, write_virtual_trace
from benchmarks.workloads import WORKLOADS, compose
from benchmarks.workloads.experiment import System, run_workload
from lrtrace.run import SUCCEEDED, RecordedSegment, RecordedTask, Run
from lrtrace.statistics import figures
from lrtrace.storage.reader import Trace
from lrtrace.timeline import read_run
from timely_llm_ros.engines.simulated.step_time import HARDWARE
from timely_llm_ros.errors import ConfigurationError, TraceError
from timely_llm_ros.evaluation.what_if import (
    Recording,
    WhatIf,
    own_way,
    recording_of,
    replay,
    what_ifs,
)
from timely_llm_ros.evaluation.what_if.comparison import model_error, outcome
from timely_llm_ros.evaluation.what_if.fleet import assigned_robots
from timely_llm_ros.evaluation.what_if.what_if import hardware_of

if TYPE_CHECKING:
    from pathlib import Path

    from timely_llm_ros.evaluation.workload import Workload

EXACT_S = 1e-6
"""Traces hold nanoseconds and replays sleep whole microseconds."""

BATCH = 3


@pytest.fixture(scope='module')
def workload() -> Workload:
    spec = replace(WORKLOADS['wid1'], duration_s=24.0, robots=150)
    return apart(compose(spec, 2))


@pytest.fixture(scope='module')
def recording(workload: Workload, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder = tmp_path_factory.mktemp('traces') / 'utility'
    write_virtual_trace(folder, workload, System('utility', max_running=BATCH))
    return recording_of(read_run(Trace(folder)))


def times(run: Run) -> dict[tuple[str, int, str], float]:
    return {
        (task.plan_id, index, name): getattr(segment, name)
        for task in run.tasks
        for index, segment in task.segments.items()
        for name in ('generated_s', 'generation_s', 'started_s', 'ended_s')
    }


@pytest.mark.parametrize(
    'system',
    [
        System('utility', max_running=BATCH),
        System('edf', policy='edf', max_running=BATCH),
        System('stream', 'stream', 'fcfs', max_running=BATCH),
        System('whole', 'whole_plan', 'fcfs', max_running=BATCH),
    ],
    ids=lambda system: system.name,
)
def test_a_run_replayed_as_it_was_comes_out_as_it_was(
    system: System, workload: Workload, tmp_path: Path
) -> None:
    write_virtual_trace(tmp_path / 'run', workload, system)
    recording = recording_of(read_run(Trace(tmp_path / 'run')))
    assert recording.compared == len(workload.tasks)
    own = own_way(recording, WhatIf(max_running=BATCH))
    assert own is not None
    again = replay(recording, replace(own, hardware='toy'))
    found = times(again)
    assert found == pytest.approx(times(recording.run), abs=EXACT_S)
    error = model_error(recording.run, again, {task.plan_id for task in again.tasks})
    assert error is not None
    assert error.tasks == len(workload.tasks)
    assert error.response_worst_s < EXACT_S
    assert error.waiting_mean_s < EXACT_S
    assert [task.utility for task in again.tasks] == pytest.approx(
        [task.utility for task in recording.run.tasks], abs=1e-5
    )


@pytest.mark.parametrize('policy', ['edf', 'fcfs'])
def test_a_what_if_tells_what_would_have_happened(
    policy: str, workload: Workload, recording: Recording
) -> None:
    # With robots enough nobody waits for one, so it does not matter who does which task.
    system = System(policy, policy=policy, max_running=BATCH)
    really = run_workload(workload, system)
    told = replay(recording, WhatIf(policy=policy, hardware='toy', max_running=BATCH))
    assert all(task.free_s == task.received_s for task in told.tasks)
    assert [task.response_s for task in told.tasks] == pytest.approx(
        [record.result.response_s for record in really], abs=EXACT_S
    )
    assert [task.response_s for task in told.tasks] != pytest.approx(
        [task.response_s for task in recording.run.tasks], abs=EXACT_S
    )


def test_the_hardware_is_found_in_the_trace(recording: Recording) -> None:
    fitted = hardware_of(recording, 'recorded').step_time
    really = HARDWARE['toy'].step_time
    assert fitted.decode_s == pytest.approx(really.decode_s, rel=0.03)
    assert fitted.prefill_s == pytest.approx(really.prefill_s, rel=0.25)
    own = own_way(recording, WhatIf(max_running=BATCH))
    assert own is not None
    again = replay(recording, own)
    error = model_error(recording.run, again, {task.plan_id for task in again.tasks})
    assert error is not None
    # Steps that are a little off change a few decisions, hence single tasks, but hardly the mean.
    typical_s = outcome(recording.run, {task.plan_id for task in again.tasks}).response_s
    assert error.response_mean_s < 0.1 * typical_s
    assert abs(error.response_bias_s) < 0.05 * typical_s
    assert abs(error.utility_bias) < 0.05


def test_equal_replays_are_equal(recording: Recording) -> None:
    way = WhatIf(policy='edf', robots=7)
    assert replay(recording, way) == replay(recording, way)


def test_faster_hardware_answers_sooner(recording: Recording) -> None:
    slow, fast = (
        figures(replay(recording, WhatIf(hardware=name)).tasks).median_response_s
        for name in ('toy_uncached', 'h200_llama3_8b')
    )
    assert fast < slow


def test_a_smaller_fleet_waits_longer(recording: Recording) -> None:
    few, many = (replay(recording, WhatIf(robots=robots)) for robots in (4, 40))
    assert len(few.robots) == 4
    assert figures(few.tasks).succeeded == figures(many.tasks).succeeded == len(many.tasks)
    ids = {task.plan_id for task in few.tasks}
    assert outcome(few, ids).response_s > outcome(many, ids).response_s + 1.0


# Runs made by hand


def task(name: str, at_s: float = 0.0, *, robot: str = 'drone_1', **values: Any) -> RecordedTask:
    segments = {
        index: RecordedSegment(
            index,
            f'act({index});',
            (f'act({index})',),
            tokens=4,
            generated_s=at_s + 1 + index,
            generation_s=0.1,
            expected_execution_s=1.0,
            execution_s=1.5,
        )
        for index in range(2)
    }
    given: dict[str, Any] = {
        'segments': segments,
        'status': SUCCEEDED,
        'ended_s': at_s + 5,
        'tokens': 9,
    }
    return RecordedTask(
        name, robot, 'look_for', 'look', at_s, at_s, 1.0, -2.0, 1.0, **(given | values)
    )


def run_of(*tasks: RecordedTask, **values: Any) -> Run:
    return Run('run', tasks=list(tasks), path='run', **values)


def test_a_robot_takes_as_long_as_it_took_whatever_was_expected() -> None:
    again = replay(recording_of(run_of(task('a'))), WhatIf(hardware='toy'))
    (done,) = again.tasks
    first = done.segments[0]
    assert done.succeeded
    assert first.expected_execution_s == pytest.approx(1.0)
    assert first.ended_s - first.started_s == pytest.approx(1.5)  # type: ignore[operator]
    assert (first.text, first.calls) == ('act(0);', ('act(0)',))
    assert done.tokens == 8


def test_a_plan_that_reads_a_value_waits_for_it() -> None:
    asking = task('a')
    asking.segments[0].awaits_value = True
    again = replay(recording_of(run_of(asking)), WhatIf(hardware='toy'))
    first, second = again.tasks[0].ordered_segments
    assert second.generated_s >= first.ended_s  # type: ignore[operator]
    whole = replay(recording_of(run_of(asking)), WhatIf('whole_plan', 'fcfs', 'toy'))
    (only,) = whole.tasks[0].ordered_segments
    assert only.text == 'act(0);act(1);'


def test_a_task_that_took_over_takes_over_again_and_another_waits() -> None:
    old, new = task('0a' * 16), task('0b' * 16, 2.0)
    queued = replay(recording_of(run_of(old, new)), WhatIf(hardware='toy'))
    assert [one.succeeded for one in queued.tasks] == [True, True]
    old = task('0a' * 16, status=6, error_code=3, error=f'task {"0b" * 16} took over')
    recording = recording_of(run_of(old, new))
    assert [one.when_busy for one in recording.tasks] == ['queue', 'abort']
    assert recording.compared == 1
    again = replay(recording, WhatIf(hardware='toy'))
    assert [one.error_code for one in again.tasks] == [3, 0]


def test_what_is_not_known_is_left_out() -> None:
    gap = task('c', 20.0, status=6, error_code=8)
    del gap.segments[0]
    cut = task('d', 30.0, status=0, ended_s=None)
    recording = recording_of(run_of(task('a'), gap, cut))
    assert (len(recording.tasks), recording.compared, recording.left_out) == (2, 1, 1)


def test_a_time_budget_holds_again() -> None:
    again = replay(
        recording_of(run_of(task('a', time_budget_s=0.1))), WhatIf(hardware='toy_uncached')
    )
    assert again.tasks[0].error_code == 9


def test_a_fleet_keeps_its_proportions() -> None:
    tasks = [
        task(f'{kind}{number}', robot=f'{kind}_{number}', skill_set=kind)
        for kind, count in (('tello', 6), ('arm', 2))
        for number in range(count)
    ]
    recorded = recording_of(run_of(*tasks)).tasks
    for robots, drones in ((8, 6), (16, 12), (2, 1), (3, 2)):
        names = {name for one in assigned_robots(recorded, robots) for name in one}
        assert len(names) == robots
        assert sum(name.startswith('tello_') for name in names) == drones
    with pytest.raises(ConfigurationError, match='at least 2, one for each skill set'):
        assigned_robots(recorded, 1)


def test_a_run_without_times_needs_named_hardware() -> None:
    silent = task('a')
    for segment in silent.segments.values():
        segment.generation_s = 0.0
    recording = recording_of(run_of(silent))
    with pytest.raises(TraceError, match='name the hardware'):
        replay(recording, WhatIf())
    assert replay(recording, WhatIf(hardware='toy')).tasks[0].succeeded


def test_what_cannot_be_replayed_is_refused() -> None:
    with pytest.raises(TraceError, match='no task in it'):
        recording_of(run_of())
    with pytest.raises(TraceError, match='none of its 1 tasks succeeded'):
        recording_of(run_of(task('a', status=6)))
    with pytest.raises(TraceError, match='lrtrace repair'):
        recording_of(run_of(task('a'), damage='cut off'))


def test_every_combination_comes_once() -> None:
    found = what_ifs(
        policies=['utility', 'edf'],
        modes=['segmented', 'whole_plan'],
        hardware=['toy', 'recorded'],
        robots=[None, 3],
    )
    assert len(found) == len(set(found)) == 12
    labels = [way.label() for way in found]
    assert 'whole plan, toy, 3 robots' in labels
    assert len(set(labels)) == 12


def test_how_a_run_was_served_may_be_unknown() -> None:
    like = WhatIf(max_running=5)
    assert own_way(recording_of(run_of(task('a'))), like) is None
    odd = run_of(task('a'), mode='segmented', policy='of_tomorrow')
    assert own_way(recording_of(odd), like) is None
    whole = run_of(task('a'), mode='whole_plan', policy='utility')
    assert own_way(recording_of(whole), like) == WhatIf('whole_plan', 'fcfs', max_running=5)


@pytest.mark.parametrize(
    ('values', 'said'),
    [
        ({'policy': 'best'}, "'best'"),
        ({'mode': 'slow'}, "'slow'"),
        ({'robots': 0}, 'at least 1'),
        ({'max_running': 0}, 'at least 1'),
    ],
)
def test_what_is_out_of_range_is_named(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        WhatIf(**values)
