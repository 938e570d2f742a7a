"""The simulated engine on a profile that was measured, not on a preset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.workloads.experiment import System, run_workload
from timely_llm_ros.engines.simulated.step_time import HARDWARE, StepWork, find_hardware
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.evaluation.workload import SegmentShape, Workload, WorkloadTask
from timely_llm_ros.prediction.times.execution_time import DecodeCoefficients, ExecutionTimeModel
from timely_llm_ros.prediction.times.profile_file import Profile, write_profile
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from pathlib import Path

TIMES = ExecutionTimeModel(
    1e-8, 1e-4, 0.003, (DecodeCoefficients(1, 1e-6, 0.01), DecodeCoefficients(4, 2e-6, 0.016))
)


@pytest.fixture
def profile(tmp_path: Path) -> str:
    path = tmp_path / 'here.json'
    write_profile(Profile(TIMES, 4096), path)
    return str(path)


def test_steps_take_what_was_measured(profile: str) -> None:
    model = find_hardware(profile).step_time
    assert model.step_s(StepWork(1, kv_tokens=500)) == pytest.approx(0.0105)
    assert model.step_s(StepWork(4, kv_tokens=500)) == pytest.approx(0.017)
    assert model.step_s(StepWork(2, kv_tokens=0)) == pytest.approx(0.012)
    assert model.step_s(StepWork(8, kv_tokens=0)) == pytest.approx(0.024)
    assert model.step_s(StepWork(0)) == 0.0


def test_prompts_take_what_was_measured(profile: str) -> None:
    model = find_hardware(profile).step_time
    for tokens, cached in ((100, 0), (1000, 900), (2048, 1)):
        work = StepWork(0, prefills=((cached, tokens),), begun=1)
        assert model.step_s(work) == pytest.approx(TIMES.at(1).prefill_time_s(tokens, cached))


def test_the_linear_form_fits_the_ends(profile: str) -> None:
    hardware = find_hardware(profile)
    model = hardware.step_time
    assert hardware.kv_capacity_tokens == 4096
    assert model.decode_s == 0.01
    assert model.decode_s * (1 + 3 * model.batch_factor) == pytest.approx(0.016)


def test_presets_have_no_measured_steps() -> None:
    assert all(hardware.step_time.measured == () for hardware in HARDWARE.values())


@pytest.mark.parametrize('name', ['no_such.json', './abacus', 'no/such/file'])
def test_paths_of_nothing_are_named(name: str) -> None:
    with pytest.raises(ConfigurationError, match='cannot be read'):
        find_hardware(name)


def test_a_workload_runs_on_a_profile(profile: str) -> None:
    shape = SegmentShape(5, 1.0)
    task = WorkloadTask(0.0, 'look', 'normal', (shape,))
    workload = Workload('one', 1, {'normal': NORMAL}, (task,))
    (record,) = run_workload(workload, System('utility'), hardware=profile, network_s=0.0)
    # Five steps of one generation and a prompt; contexts of a few tokens.
    assert record.result.response_s == pytest.approx(5 * 0.01 + 0.003, abs=0.02)
