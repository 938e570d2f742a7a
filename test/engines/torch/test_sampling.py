"""Drawn tokens: within the mask, in the right proportions, and the same however they are served."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip('torch')

from support.engines.torch_runs import Run, alone, free_request, interleave, plan_request
from support.examples import examples

from timely_llm_ros.engines.openai.sequences import ServerSequences
from timely_llm_ros.engines.texts.server_texts import ServerTexts
from timely_llm_ros.engines.tokens.sampling import MAX_SEED, Sampling
from timely_llm_ros.engines.torch.compute.model import LoadedModel, load_model
from timely_llm_ros.engines.torch.compute.sampling import choose, draw
from timely_llm_ros.engines.torch.compute.static_batches import StaticBatches, serve_continuously
from timely_llm_ros.engines.torch.config import TorchConfig
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engines
GENERATIONS = 8
HOT = Sampling(1.5, 0.95, 11)


@pytest.fixture(scope='module')
def loaded(chaotic_model: Path) -> LoadedModel:
    return load_model(str(chaotic_model), max_kv_tokens=8192)


def masks_of(allowed: list[list[bool]]) -> np.ndarray[Any, np.dtype[np.int32]]:
    bits = np.zeros((len(allowed), -(-len(allowed[0]) // 32) * 32), np.uint8)
    bits[:, : len(allowed[0])] = allowed
    return np.packbits(bits, axis=1, bitorder='little').view(np.int32)


@given(
    rows=st.lists(
        st.lists(st.tuples(st.floats(-30, 30, width=32), st.booleans()), min_size=6, max_size=6),
        min_size=1,
        max_size=4,
    ),
    chance=st.integers(0, 2**48 - 1).map(lambda number: number / 2**48),
    temperature=st.floats(0.01, 10),
    top_p=st.floats(0.001, 1.0),
)
def test_what_is_drawn_is_allowed_and_among_the_likeliest(
    rows: list[list[tuple[float, bool]]], chance: float, temperature: float, top_p: float
) -> None:
    logits = np.array([[score for score, _ in row] for row in rows], np.float32)
    allowed = [[may for _, may in row] for row in rows]
    masks, chances = masks_of(allowed), [chance] * len(rows)
    drawn = draw(logits, masks, chances, temperature=temperature, top_p=top_p)
    for row, token, best in zip(range(len(rows)), drawn, choose(logits, masks), strict=True):
        if not any(allowed[row]):
            assert token == best == -1
            continue
        assert allowed[row][token]
        scores = np.where(allowed[row], logits[row].astype(float), -np.inf)
        shares = np.exp((scores - scores.max()) / temperature)
        likelier = shares[shares > shares[token]].sum() / shares.sum()
        assert likelier < top_p + 1e-9


@examples(50)
@given(
    seed=st.integers(0, 2**31),
    spread=st.floats(0.01, 8),
    chance=st.floats(0, 1, exclude_max=True),
    top_p=st.sampled_from([0.001, 0.5, 0.9, 0.99, 0.999999]),
)
def test_tokens_that_are_too_rare_to_be_sorted_change_nothing(
    seed: int, spread: float, chance: float, top_p: float
) -> None:
    rng = np.random.default_rng(seed)
    # Many of few different scores, so that there are ties.
    logits = rng.normal(0, spread, (1, 500)).round(1).astype(np.float32)
    allowed = rng.random(500) < 0.7
    allowed[int(rng.integers(500))] = True
    drawn = draw(logits, masks_of([allowed.tolist()]), [chance], temperature=0.8, top_p=top_p)
    scores = np.where(allowed, logits[0].astype(float), -np.inf)
    shares = np.exp((scores - scores.max()) / 0.8)
    shares /= shares.sum()
    order = np.argsort(-shares, kind='stable')
    before = np.cumsum(shares[order]) - shares[order]
    shares[order[before >= top_p]] = 0.0
    sums = shares.cumsum()
    assert drawn[0] == (sums <= chance * sums[-1]).sum()


def test_tokens_come_as_often_as_they_are_probable() -> None:
    logits = np.log(np.array([[0.5, 0.2, 0.2, 0.1]], np.float32))
    masks = masks_of([[True, True, False, True]])
    sampling = Sampling(0.5, seed=3)
    count = 4000
    chances = [sampling.chance('plan', token) for token in range(count)]
    drawn = draw(
        logits.repeat(count, axis=0), masks.repeat(count, axis=0), chances, temperature=0.5
    )
    # Squares, since the temperature is one half, of those that are allowed.
    expected = np.array([0.25, 0.04, 0.0, 0.01]) / 0.30
    found = np.bincount(drawn, minlength=4) / count
    assert found[2] == 0
    assert np.abs(found - expected).max() < 4 * np.sqrt(0.25 / count)


def test_the_likeliest_is_never_left_out() -> None:
    logits = np.array([[2.0, 1.0]], np.float32)
    masks = masks_of([[True, True]])
    for chance in (0.0, 0.5, 1 - 2**-48):
        drawn = draw(logits, masks, [chance], temperature=10, top_p=1e-6)
        assert drawn.tolist() == [0]


def test_chance_depends_on_seed_generation_and_token_alone() -> None:
    sampling = Sampling(1.0, seed=5)
    chances = {sampling.chance(f'g{n}', token) for n in range(20) for token in range(50)}
    assert len(chances) == 1000
    assert all(0 <= chance < 1 for chance in chances)
    assert abs(np.mean(list(chances)) - 0.5) < 0.05
    assert Sampling(2.0, 0.5, 5).chance('g1', 3) == sampling.chance('g1', 3)
    assert replace(sampling, seed=6).chance('g1', 3) != sampling.chance('g1', 3)


@pytest.mark.parametrize(
    ('options', 'problem'),
    [
        ({'temperature': -0.1}, r'temperature -0.1: expected 0'),
        ({'temperature': float('nan')}, 'temperature nan'),
        ({'top_p': 0.0}, r'top_p 0.0: expected 0.001 to 1'),
        ({'top_p': 1.1}, 'top_p 1.1'),
        ({'seed': -1}, 'seed -1: expected 0'),
        ({'seed': 2**31}, 'seed 2147483648'),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        Sampling(**options)


def test_it_travels_to_the_worker() -> None:
    options = TorchConfig(policy='srpt', sampling=HOT)
    assert TorchConfig.from_json(options.to_json()) == options


@pytest.mark.parametrize('free', [True, False])
def test_batching_and_suspension_do_not_show(loaded: LoadedModel, free: bool) -> None:
    make = free_request if free else plan_request
    requests = [make(number) for number in range(GENERATIONS)]
    expected = {it.generation_id: alone(loaded, it, free=free, sampling=HOT) for it in requests}
    # Chance must have had a say, or this test could not fail.
    assert expected != {
        it.generation_id: alone(loaded, it, free=free, sampling=Sampling()) for it in requests
    }
    for seed, room in ((0, 8192), (1, 300 if free else 500)):
        run = Run(
            loaded,
            free=free,
            options={'max_running': 5, 'max_kv_tokens': room, 'sampling': HOT},
        )
        canceled = interleave(run, requests, random.Random(seed))
        for name, ended in run.ended.items():
            assert ended.token_ids == expected[name][: len(ended.token_ids)]
            assert name in canceled or len(ended.token_ids) == len(expected[name])
        if room < 8192:
            assert run.core.kv.spilled > 0
        for key in list(run.backend._prefixes):
            run.backend.drop_prefix(key)


def test_offline_batches_draw_the_same(loaded: LoadedModel) -> None:
    requests = [replace(plan_request(number), background=True) for number in range(4)]
    one_by_one = {
        it.generation_id: it.text
        for it in serve_continuously(loaded, iter(requests), batch=1, sampling=HOT)
    }
    together = StaticBatches(loaded, sampling=HOT).serve(requests)
    assert {it.generation_id: it.text for it in together if it.reason == 'stop'} == {
        name: text for name, text in one_by_one.items() if text
    }
    greedy = serve_continuously(loaded, iter(requests), batch=4)
    assert {it.generation_id: it.text for it in greedy} != one_by_one


def test_a_server_gets_a_seed_for_each_generation_and_segment() -> None:
    sampling = Sampling(0.7, 0.9, 4)
    texts = ServerTexts('timely-planner')
    sequences = ServerSequences(texts, sampling)
    bodies = []
    for number in range(2):
        request = replace(free_request(number), constrained=False)
        sequences.open(request)
        bodies.append(sequences.body(request.generation_id, stop_at_statement=False))
        assert (bodies[-1]['temperature'], bodies[-1]['top_p']) == (0.7, 0.9)
        assert 0 <= bodies[-1]['seed'] <= MAX_SEED
    assert bodies[0]['seed'] != bodies[1]['seed']
    sequences.take('g0', 5)
    after = sequences.body('g0', stop_at_statement=False)
    assert after['seed'] == (bodies[0]['seed'] + 1) % (MAX_SEED + 1)
    greedy = Sampling()(free_request(0))
    assert greedy == {'temperature': 0.0}
