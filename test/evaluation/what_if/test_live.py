"""Recorded tasks on an engine that runs in real time: its own plans, the recorded durations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.traces.small_trace import CALLS, write_small_trace

from lrtrace.storage.reader import Trace
from lrtrace.timeline import read_run
from timely_llm_ros.cli.main import main
from timely_llm_ros.engines.simulated.config import SimulatedConfig
from timely_llm_ros.engines.simulated.engine import SimulatedEngine
from timely_llm_ros.engines.simulated.step_time import StepTimeModel
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.evaluation.what_if.live import recorded_durations, replay_live
from timely_llm_ros.evaluation.what_if.recorded import recording_of
from timely_llm_ros.evaluation.what_if.what_if import WhatIf

if TYPE_CHECKING:
    from lrtrace.run import Run
    from timely_llm_ros.engines import Engine

OTHER = 'takeoff;goto(cat_1);hover;land;'


@pytest.fixture(scope='module')
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return Trace(write_small_trace(tmp_path_factory.mktemp('small') / 'run'))


def served(trace: Trace, plan: str) -> Run:
    recording = recording_of(read_run(trace))
    return replay_live(
        trace,
        recording,
        WhatIf(policy='edf'),
        lambda: SimulatedEngine(
            SimulatedConfig(
                plan_text=lambda _: plan, step_time=StepTimeModel(prefill_s=0.001, decode_s=0.001)
            )
        ),
    )


def test_durations_of_calls_are_the_recorded_ones(trace: Trace) -> None:
    assert recorded_durations(trace) == {
        'tello': {call: [pytest.approx(call_s)] * 2 for call, call_s in CALLS}
    }


def test_the_same_plan_takes_the_recorded_time(trace: Trace) -> None:
    run = served(trace, ''.join(f'{call};' for call, _ in CALLS))
    assert [task.succeeded for task in run.tasks] == [True, True]
    assert [task.robot for task in run.tasks] == ['drone_1', 'drone_2']
    for task in run.tasks:
        calls = [call for segment in task.ordered_segments for call in segment.calls]
        assert calls == [call for call, _ in CALLS]
        took_s = sum(segment.execution_s or 0.0 for segment in task.ordered_segments)
        # Sleeps never end early.
        assert took_s >= sum(call_s for _, call_s in CALLS) - 1e-3
        assert task.received_s >= 0.2 * (task.robot == 'drone_2') - 1e-3
    assert run.engine == 'simulated'
    assert all(sample.at_s >= 0 for sample in run.samples)


def test_another_plan_is_what_the_report_shows(trace: Trace) -> None:
    run = served(trace, 'take_picture;log("nothing");')
    texts = [segment.text for segment in run.tasks[0].ordered_segments]
    assert ''.join(texts) == 'take_picture;log("nothing");'


def no_engine() -> Engine:
    raise AssertionError('made before the options were checked')


def test_other_fleets_and_other_hardware_are_refused(
    trace: Trace, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigurationError, match='expected the recorded ones'):
        replay_live(trace, recording_of(read_run(trace)), WhatIf(robots=3), no_engine)
    for arguments in (['--robots', '3'], ['--hardware', 'toy']):
        assert main(['what-if', '--engine', 'torch', *arguments, str(trace.path)]) == 1
        assert 'expected engine simulated' in capsys.readouterr().err


@pytest.mark.engines
def test_the_shipped_model_plans_recorded_tasks_again(
    trace: Trace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['what-if', '--engine', 'torch', '--policy', 'utility', str(trace.path)]) == 0
    out = capsys.readouterr().out
    (row,) = [line for line in out.splitlines() if line.startswith('utility, torch')]
    # Nothing failed: the last column.
    assert row.split()[-2:] == ['0', '(+0)']
