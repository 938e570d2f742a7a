"""A real profile of the shipped model, with sizes so small that it takes a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip('torch')

from timely_llm_ros.cli.main import main
from timely_llm_ros.engines.sample_requests import sample_request
from timely_llm_ros.engines.simulated.step_time import find_hardware
from timely_llm_ros.engines.tokens.model_files import SHIPPED_MODEL, find_model
from timely_llm_ros.engines.torch.compute.eviction import find_method
from timely_llm_ros.engines.torch.compute.model import load_model
from timely_llm_ros.engines.torch.compute.profile import STEPS, TorchStopwatch
from timely_llm_ros.engines.torch.compute.requests import measure_requests
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.times.execution_time import DecodeCoefficients, ExecutionTimeModel
from timely_llm_ros.prediction.times.profile_file import read_profile
from timely_llm_ros.prediction.times.profiling import RequestOverhead

if TYPE_CHECKING:
    from pathlib import Path

    from timely_llm_ros.engines import GenerationRequest

pytestmark = pytest.mark.engines


def test_the_shipped_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / 'tiny.json'
    sizes = ['--prompts', '2', '8', '32', '--contexts', '4', '32', '--batches', '1', '2']
    options = ['--repeats', '3', '--prefill-chunk', '8', '--kv-tokens', '128']
    assert main(['profile', '-o', str(path), *sizes, *options]) == 0
    assert 'step of 2' in capsys.readouterr().out
    profile = read_profile(path)
    assert [entry.batch for entry in profile.times.decode] == [1, 2]
    assert all(entry.step_s > 0 for entry in profile.times.decode)
    assert profile.about['model']['parameters'] > 1e6
    # No request has room beside 128 tokens of KV, so none was measured.
    assert profile.about['requests']['prompt_s'] == 0
    assert find_hardware(str(path)).kv_capacity_tokens == 128


@pytest.mark.parametrize(
    ('sizes', 'message'),
    [
        (['--prompts', '8', '16', '200'], '1 contexts of 200 tokens: expected at most 128'),
        (['--contexts', '8', '100', '--batches', '2'], '2 contexts of 101 tokens'),
        (['--prompts', '8', '16', '9000', '--kv-tokens', '10000'], '8192, the model'),
    ],
)
def test_sizes_that_do_not_fit(
    sizes: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / 'tiny.json'
    small = ['--prompts', '8', '16', '32', '--contexts', '8', '16', '--batches', '1']
    assert main(['profile', '-o', str(path), '--kv-tokens', '128', *small, *sizes]) == 1
    assert message in capsys.readouterr().err
    assert not path.exists()


def test_the_pool_is_left_as_it_was(chaotic_model: Path) -> None:
    loaded = load_model(str(chaotic_model), max_kv_tokens=64)
    stopwatch = TorchStopwatch(loaded, prefill_chunk=8)
    for tokens, cached in ((20, 0), (17, 8), (1, 0), (30, 29)):
        assert stopwatch.prefill_s(tokens, cached) > 0
    assert len(stopwatch.steps_s(3, 20)) == STEPS
    assert len(TorchStopwatch(loaded, prefill_chunk=8, steps=2).steps_s(1, 5)) == 2
    assert loaded.pool.used == 0
    with pytest.raises(ConfigurationError, match='4 contexts of 21 tokens'):
        stopwatch.steps_s(4, 20)
    with pytest.raises(ConfigurationError, match='prefill chunk 0'):
        TorchStopwatch(loaded, prefill_chunk=0)
    assert loaded.pool.used == 0


def test_whole_requests_are_measured_beyond_the_model() -> None:
    planner_model = load_model(find_model(SHIPPED_MODEL), max_kv_tokens=8192)
    free = ExecutionTimeModel(0, 0, 0, (DecodeCoefficients(1, 0, 0), DecodeCoefficients(2, 0, 0)))
    slow = ExecutionTimeModel(0, 0, 60, (DecodeCoefficients(1, 0, 60),))
    for times in (free, slow):
        found = measure_requests(
            planner_model, times, prefill_chunk=64, rounds=1, batches=(1, 2),
            eviction=find_method('snapkv'),
        )  # fmt: skip
        assert [batch for batch, _ in found.steps_s] == [1, 2]
        # All that it takes is beyond a model that takes nothing, and nothing beyond a minute.
        assert (found.prompt_s > 0) == (times is free)
        assert min(found.evicting_token_s, *(step_s for _, step_s in found.steps_s)) >= 0
    assert planner_model.pool.used == 0


def test_a_slow_model_is_asked_as_little_as_there_is_time_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planner_model = load_model(find_model(SHIPPED_MODEL), max_kv_tokens=8192)
    evicted: list[int] = []

    def noted(name: str, objects: int, *, max_tokens: int) -> GenerationRequest:
        if name == 'long':
            evicted.append(objects)
        return sample_request(name, objects, max_tokens=max_tokens)

    monkeypatch.setattr(f'{measure_requests.__module__}.sample_request', noted)
    slow = ExecutionTimeModel(0, 0.01, 0, (DecodeCoefficients(1, 0, 0.2),))
    for limit_s, shortest in ((1000.0, 60), (20.0, 15), (1.0, 8)):
        evicted.clear()
        found = measure_requests(
            planner_model, slow, prefill_chunk=64, rounds=1, eviction=find_method('snapkv'),
            limit_s=limit_s,
        )  # fmt: skip
        assert evicted[-1] == shortest
    assert found == RequestOverhead(0.0, ((1, 0.0),)), 'there was no time for a round'
