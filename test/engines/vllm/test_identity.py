"""Suspension on a real vLLM never shows in the tokens. One start per kind of model and pool."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.engines.stage_watch import LOG_VARIABLE
from support.engines.tiny_model import write_model
from support.engines.torch_runs import plan_request
from support.engines.vllm_runs import (
    VllmRun,
    free_request,
    mismatches,
    start_asynchronous,
    torch_tokens,
)
from support.process_table import tree, wait_gone

from timely_llm_ros.engines.vllm.plugin.contract import ASYNC_SCHEDULER
from timely_llm_ros.scheduling.microbatch import LinearCosts, PipelineModel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip('vllm', reason='vLLM is left out on this machine')

FREE = [free_request(number) for number in range(16)]
PLANS = [plan_request(number) for number in range(16)]


@pytest.fixture(scope='module')
def wide_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chaotic model whose heads are as wide as vLLM's kernels for CPUs ask for."""
    return write_model(tmp_path_factory.mktemp('models') / 'wide', hidden_size=256)


@pytest.fixture(scope='module')
def ample(wide_model: Path) -> Iterator[VllmRun]:
    run = VllmRun(model_path=str(wide_model), max_running=4, max_kv_tokens=32768)
    yield run
    run.close()


@pytest.fixture(scope='module')
def greedy(ample: VllmRun) -> dict[str, tuple[int, ...]]:
    ample.seeded = False
    return ample.do(ample.alone(FREE + PLANS))


@pytest.fixture(scope='module')
def seeded(ample: VllmRun) -> dict[str, tuple[int, ...]]:
    ample.seeded = True
    return ample.do(ample.alone(FREE))


def test_the_oracle_is_chaotic(greedy: dict[str, tuple[int, ...]]) -> None:
    texts = [greedy[request.generation_id] for request in FREE]
    assert sum(len(set(ids)) for ids in texts) > 0.6 * sum(map(len, texts))
    assert len(set(texts)) == len(FREE)


def test_alone_it_says_what_the_torch_engine_says(
    wide_model: Path, greedy: dict[str, tuple[int, ...]]
) -> None:
    from timely_llm_ros.engines.torch.compute.model import load_model

    loaded = load_model(str(wide_model), max_kv_tokens=4096)
    for request in (*FREE[:4], *PLANS[:4]):
        assert torch_tokens(loaded, request) == greedy[request.generation_id]


def test_torn_greedy_texts_and_plans_are_whole(
    ample: VllmRun, greedy: dict[str, tuple[int, ...]]
) -> None:
    ample.seeded = False
    ample.suspended = 0
    found = ample.do(ample.torn(FREE, random.Random(1)))
    assert mismatches(found, greedy) == []
    found = ample.do(ample.torn(PLANS, random.Random(2)))
    assert mismatches(found, greedy) == []
    assert sum(ended.forwarded for ended in found.values()) > 50
    assert ample.suspended > 4
    assert ample.spilled == 0


def test_guesses_save_steps_and_never_show(
    ample: VllmRun, wide_model: Path, greedy: dict[str, tuple[int, ...]]
) -> None:
    from timely_llm_ros.engines.torch.compute.model import load_model

    ample.seeded = False
    wanted = {it.generation_id: greedy[it.generation_id] for it in PLANS}
    forwarded: dict[str, list[int]] = {name: [] for name in wanted}
    # Once all were written, what they go on with can be guessed.
    assert ample.do(ample.alone(PLANS)) == wanted
    for name, ended in ample.ended.items():
        forwarded.get(name.split('/')[1], []).append(ended.forwarded)
    assert sum(it[-1] for it in forwarded.values()) > sum(it[0] for it in forwarded.values())
    names = ample.submit(PLANS)
    ample.do(ample.until(lambda: all(name in ample.ended for name in names)))
    assert mismatches({old: ample.ended[new] for new, old in names.items()}, greedy) == []
    loaded = load_model(str(wide_model), max_kv_tokens=4096)
    cut = [replace(PLANS[3], max_tokens=most) for most in (1, 2, 3, 5, 8, 13, 14, 15, 21, 34)]
    for request in cut:
        assert ample.do(ample.alone([request])) == {'g3': torch_tokens(loaded, request)}


def test_torn_seeded_texts_are_whole(ample: VllmRun, seeded: dict[str, tuple[int, ...]]) -> None:
    ample.seeded = True
    found = ample.do(ample.torn(FREE, random.Random(3)))
    assert mismatches(found, seeded) == []


def test_segments_are_those_of_the_whole_text(ample: VllmRun) -> None:
    ample.seeded = False
    names = ample.submit(PLANS)
    ample.do(ample.until(lambda: all(name in ample.ended for name in names)))
    for name in names:
        segments = [event.segment for event in ample.segments.get(name, [])]
        assert [segment.index for segment in segments] == list(range(len(segments)))
        assert sum(segment.tokens for segment in segments) <= ample.ended[name].tokens


def test_a_tiny_pool_and_steps_that_overlap_change_nothing(
    wide_model: Path,
    greedy: dict[str, tuple[int, ...]],
    seeded: dict[str, tuple[int, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As on a GPU, so that the other scheduler runs with a model too.
    monkeypatch.setattr('timely_llm_ros.engines.vllm.process.start_llm', start_asynchronous)
    run = VllmRun(
        model_path=str(wide_model),
        max_running=4,
        max_suspended=8,
        max_kv_tokens=20 * 32,
        vllm={'scheduler_cls': ASYNC_SCHEDULER},
    )
    try:
        found = run.do(run.torn(FREE, random.Random(4)))
        assert mismatches(found, greedy) == []
        run.seeded = True
        found = run.do(run.torn(FREE, random.Random(5)))
        assert mismatches(found, seeded) == []
        run.seeded = False
        found = run.do(run.torn(PLANS[:8], random.Random(6)))
        assert mismatches(found, greedy) == []
        # So these are also the plans that come without fast-forward.
        assert not any(ended.forwarded for ended in found.values())
        assert run.spilled > 0
    finally:
        run.close()


def test_two_stages_change_nothing(
    wide_model: Path,
    greedy: dict[str, tuple[int, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pipeline: steps are composed by what stages and links were measured to take."""
    log = tmp_path / 'steps'
    monkeypatch.setenv(LOG_VARIABLE, str(log))
    run = VllmRun(
        model_path=str(wide_model),
        max_running=4,
        max_kv_tokens=8192,
        vllm={
            'pipeline_parallel_size': 2,
            'scheduler_cls': 'support.engines.stage_watch.WatchedScheduler',
        },
    )
    (core,) = run.core_pids
    processes = tree(core)
    try:
        assert len(processes) > 2, 'an engine core and two stages'
        assert run.do(run.alone(PLANS[:1])) == {'g0': greedy['g0']}
        found = run.do(run.torn(PLANS, random.Random(7)))
    finally:
        run.close()
        wait_gone(processes)
    assert mismatches(found, greedy) == []
    assert run.suspended > 0
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    assert steps[0]['costs'] is None
    assert steps[0]['micro_batches'] == 2
    assert any(step['taken'] < step['offered'] for step in steps), 'shared between steps'
    known = [step for step in steps if step['costs'] and step['decoding'] and not step['prompts']]
    assert known
    for step in known:
        model = PipelineModel(2, 2, LinearCosts(**step['costs']))
        assert step['micro_batches'] == model.sure_count(step['decoding'], step['contexts'])
