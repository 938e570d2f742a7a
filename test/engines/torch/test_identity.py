"""Suspension, batching, spilling and prefix sharing must not show in the tokens."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip('torch')

from support.engines.torch_runs import Run, alone, free_request, interleave, plan_request

from benchmarks.field import FIELD
from timely_llm_ros.engines import Submit
from timely_llm_ros.engines.torch.compute.model import LoadedModel, load_model
from timely_llm_ros.scheduling import POLICIES

if TYPE_CHECKING:
    from pathlib import Path

    from timely_llm_ros.engines import GenerationEnded, GenerationRequest

pytestmark = pytest.mark.engines
GENERATIONS = 16


@pytest.fixture(scope='module')
def loaded(chaotic_model: Path) -> LoadedModel:
    return load_model(str(chaotic_model), max_kv_tokens=8192)


@pytest.fixture(scope='module')
def expected_free(loaded: LoadedModel) -> dict[str, tuple[int, ...]]:
    return {f'g{n}': alone(loaded, free_request(n), free=True) for n in range(GENERATIONS)}


@pytest.fixture(scope='module')
def expected_plans(loaded: LoadedModel) -> dict[str, tuple[int, ...]]:
    return {
        f'g{n}': alone(loaded, plan_request(n), free=False, fast_forward=False)
        for n in range(GENERATIONS)
    }


def assert_identical(run: Run, expected: dict[str, tuple[int, ...]], canceled: set[str]) -> None:
    assert run.ended.keys() == expected.keys()
    for name, ended in run.ended.items():
        if name in canceled and ended.reason == 'canceled':
            assert ended.token_ids == expected[name][: len(ended.token_ids)]
        else:
            assert ended.reason in ('length', 'stop'), ended
            assert ended.token_ids == expected[name]


def test_oracle_is_chaotic(expected_free: dict[str, tuple[int, ...]]) -> None:
    longest = max(expected_free.values(), key=len)
    assert len(set(longest)) > 0.65 * len(longest)
    assert len(set(expected_free.values())) == GENERATIONS


def test_equals_transformers(
    loaded: LoadedModel, chaotic_model: Path, expected_free: dict[str, tuple[int, ...]]
) -> None:
    import torch
    import transformers

    reference = transformers.AutoModelForCausalLM.from_pretrained(chaotic_model)
    for number in range(4):
        prompt = free_request(number).prompt
        ids = loaded.texts.encode(prompt.fixed) + loaded.texts.encode(prompt.body)
        out = reference.generate(
            torch.tensor([ids]), max_new_tokens=48, do_sample=False, pad_token_id=0
        )
        generated = out[0, len(ids) :].tolist()
        assert tuple(t for t in generated if t != 256) == expected_free[f'g{number}']


@pytest.mark.parametrize('seed', range(4))
@pytest.mark.parametrize('policy', ['utility', 'fcfs', 'edf'])
def test_interleaving(
    loaded: LoadedModel, expected_free: dict[str, tuple[int, ...]], policy: str, seed: int
) -> None:
    run = Run(loaded, free=True, options={'policy': policy, 'max_running': 5, 'prefill_chunk': 32})
    requests = [free_request(number) for number in range(GENERATIONS)]
    canceled = interleave(run, requests, random.Random(seed))
    assert_identical(run, expected_free, canceled)
    close(run)


@pytest.mark.parametrize('name', FIELD)
def test_interleaving_under_rankings_of_the_field(
    loaded: LoadedModel,
    expected_plans: dict[str, tuple[int, ...]],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(POLICIES, 'fcfs', FIELD[name])
    run = Run(loaded, options={'policy': 'fcfs', 'max_running': 4})
    requests = [plan_request(number) for number in range(GENERATIONS)]
    canceled = interleave(run, requests, random.Random(5))
    assert_identical(run, expected_plans, canceled)
    close(run)


@pytest.mark.parametrize('mode', ['segmented', 'stream'])
@pytest.mark.parametrize('seed', range(3))
def test_interleaving_within_a_grammar(
    loaded: LoadedModel, expected_plans: dict[str, tuple[int, ...]], seed: int, mode: str
) -> None:
    run = Run(loaded, options={'max_running': 6, 'mode': mode})
    requests = [plan_request(number) for number in range(GENERATIONS)]
    canceled = interleave(run, requests, random.Random(seed))
    assert_identical(run, expected_plans, canceled)
    close(run)


@pytest.mark.parametrize('seed', range(4))
@pytest.mark.parametrize('room', [170, 250, 400])
def test_interleaving_with_little_room(
    loaded: LoadedModel, expected_free: dict[str, tuple[int, ...]], room: int, seed: int
) -> None:
    run = Run(loaded, free=True, options={'max_running': 5, 'max_kv_tokens': room})
    requests = [free_request(number) for number in range(GENERATIONS)]
    canceled = interleave(run, requests, random.Random(seed))
    assert_identical(run, expected_free, canceled)
    assert run.core.kv.spilled > 0
    close(run)


def test_interleaving_with_little_room_within_a_grammar(
    loaded: LoadedModel, expected_plans: dict[str, tuple[int, ...]]
) -> None:
    run = Run(loaded, options={'max_running': 4, 'max_kv_tokens': 500})
    requests = [plan_request(number) for number in range(GENERATIONS)]
    canceled = interleave(run, requests, random.Random(1))
    assert_identical(run, expected_plans, canceled)
    assert run.core.kv.spilled > 0
    close(run)


def close(run: Run) -> None:
    """Nothing but prefixes may be held when all generations have ended."""
    prefix_tokens = sum(len(prefix.slots) for prefix in run.backend._prefixes.values())
    assert run.loaded.pool.used == run.core.kv.used == prefix_tokens
    assert not run.backend._sequences
    for key in list(run.backend._prefixes):
        run.backend.drop_prefix(key)
    assert run.loaded.pool.used == 0


def test_text_that_is_no_plan_ends_at_its_first_statement(loaded: LoadedModel) -> None:
    for number in range(GENERATIONS):
        junk = replace(plan_request(number, max_tokens=400), constrained=False)
        ended = ended_alone(loaded, junk)
        assert ended.reason == 'invalid_plan'
        assert ended.tokens < 40


def test_a_stop_string_ends_a_text_before_it(
    loaded: LoadedModel, expected_free: dict[str, tuple[int, ...]]
) -> None:
    whole = loaded.texts.decode(expected_free['g0'])
    places = range(10, len(whole) - 1)
    stop = next(whole[n : n + 2] for n in places if whole[n : n + 2].isascii())
    ended = ended_alone(loaded, free_request(0), free=True, stop_strings=(stop,))
    text = loaded.texts.decode(ended.token_ids)
    assert ended.reason == 'stop'
    assert text.find(stop) == len(text) - len(stop)
    assert whole.startswith(text)


def ended_alone(
    loaded: LoadedModel, request: GenerationRequest, *, free: bool = False, **options: Any
) -> GenerationEnded:
    run = Run(loaded, free=free, options=options)
    run.core.apply(Submit(request))
    run.finish()
    for prefix in run.backend.prefixes:
        run.backend.drop_prefix(prefix)
    return run.ended[request.generation_id]
