"""What is chosen to be kept, and that a generation goes on from it as it should."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from timely_llm_ros.engines import Submit

pytest.importorskip('torch')

import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from support.engines import snapkv_reference
from support.engines.torch_runs import Run, alone, free_request, interleave
from support.examples import examples

from timely_llm_ros.budget.eviction_rule import FixedEviction
from timely_llm_ros.engines.engine import EvictionDecided
from timely_llm_ros.engines.torch.compute.eviction import (
    KeyNorm,
    QueryWindow,
    SnapKv,
    Streaming,
    find_method,
)
from timely_llm_ros.engines.torch.compute.model import LoadedModel, load_model
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from timely_llm_ros.engines.commands import GenerationRequest

pytestmark = pytest.mark.engines

GENERATIONS = 12
RECORDED = json.loads((Path(__file__).parents[2] / 'data' / 'kvpress_selections.json').read_text())


def random_prompt(seed: int, tokens: int, kv_heads: int, group: int, width: int) -> Any:
    """Keys and queries as float32, so that every implementation sees the same numbers."""
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((tokens, kv_heads, width)).astype(np.float32)
    queries = rng.standard_normal((tokens, kv_heads * group, width)).astype(np.float32)
    return keys, queries


# Which tokens


@examples(60)
@given(
    seed=st.integers(0, 2**31),
    tokens=st.integers(2, 40),
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    window=st.integers(1, 12),
    kernel=st.sampled_from([1, 3, 5, 7]),
    share=st.floats(0.0, 1.0),
    gathered=st.integers(1, 40),
)
def test_snapkv_equals_the_reference(
    seed: int, tokens: int, kv_heads: int, group: int, window: int, kernel: int, share: float,
    gathered: int,
) -> None:  # fmt: skip
    keys, queries = random_prompt(seed, tokens, kv_heads, group, 8)
    queries = queries[-gathered:]
    keep = max(1, round(share * tokens))
    scaling = 8**-0.5
    got = (
        SnapKv(window, kernel)
        .select(torch.tensor(keys), torch.tensor(queries), scaling, keep)
        .tolist()
    )
    scored = snapkv_reference.scores(
        keys.astype(np.float64), queries.astype(np.float64), scaling, window, kernel
    )
    for head, values in enumerate(scored):
        # float32 cannot tell what is nearer than this.
        assume(snapkv_reference.gap(values, tokens, keep) > 1e-7)
        assert got[head] == snapkv_reference.select(values, tokens, keep)


@pytest.mark.parametrize('case', RECORDED['snapkv'], ids=lambda case: f'seed {case["seed"]}')
def test_snapkv_keeps_what_kvpress_keeps(case: dict[str, Any]) -> None:
    keys, queries = random_prompt(*(case[name] for name in RECORDED['shape']))
    method = SnapKv(case['window'], case['kernel'])
    got = method.select(
        torch.tensor(keys), torch.tensor(queries), case['width'] ** -0.5, case['keep']
    )
    assert got.tolist() == case['selected']


@pytest.mark.parametrize('case', RECORDED['knorm'], ids=lambda case: f'seed {case["seed"]}')
def test_knorm_keeps_what_kvpress_keeps(case: dict[str, Any]) -> None:
    keys, _ = random_prompt(*(case[name] for name in RECORDED['shape']))
    assert (
        KeyNorm().select(torch.tensor(keys), None, 1.0, case['keep']).tolist() == case['selected']
    )


@pytest.mark.parametrize(
    ('keep', 'expected'), [(1, [9]), (3, [0, 1, 9]), (6, [0, 1, 2, 3, 8, 9]), (10, [*range(10)])]
)
def test_streaming_keeps_both_ends(keep: int, expected: list[int]) -> None:
    keys = torch.tensor(random_prompt(0, 10, 2, 1, 4)[0])
    assert Streaming().select(keys, None, 1.0, keep).tolist() == [expected, expected]


def test_equal_scores_keep_the_earlier_token() -> None:
    assert KeyNorm().select(torch.ones(6, 1, 4), None, 1.0, 3).tolist() == [[0, 1, 2]]


@pytest.mark.parametrize('sizes', [(7,), (3, 4), (1, 1, 5), (6, 1)])
def test_query_window_keeps_the_latest_however_they_come(sizes: tuple[int, ...]) -> None:
    queries = torch.randn(sum(sizes), 2, 3)
    window = QueryWindow(4)
    for part in torch.split(queries, list(sizes)):
        window.take(0, part, 0.5)
    assert torch.equal(window.of(0), queries[-4:])
    assert window.scaling == 0.5


def test_bad_settings() -> None:
    with pytest.raises(ConfigurationError, match=r"'h2o': expected one of"):
        find_method('h2o')
    with pytest.raises(ConfigurationError, match=r'kernel 4: expected'):
        SnapKv(kernel=4)
    with pytest.raises(ConfigurationError, match=r'share 1\.0 to evict: expected'):
        FixedEviction(1.0)


# Generations


@pytest.fixture(scope='module')
def loaded(chaotic_model: Path) -> LoadedModel:
    return load_model(str(chaotic_model), max_kv_tokens=8192)


def evicting(number: int, share: float = 0.5) -> GenerationRequest:
    return replace(free_request(number), eviction=FixedEviction(share))


def mixed(number: int) -> GenerationRequest:
    """A third of them keep everything, on the same prefixes."""
    return evicting(number, (0.0, 0.4, 0.8)[number % 3])


@pytest.mark.parametrize('name', ['snapkv', 'knorm', 'streaming'])
def test_equals_transformers_on_what_is_kept(
    loaded: LoadedModel, chaotic_model: Path, name: str
) -> None:
    """An independent run: full prefill, its cache cut down, then plain decoding from position N."""
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(chaotic_model)
    for number in range(3):
        request = evicting(number)
        run = Run(loaded, free=True, options={'max_running': 1, 'eviction': find_method(name)})
        run.core.apply(Submit(request))
        kept: dict[int, Any] = {}
        while run.step():
            sequence = run.backend._sequences.get(request.generation_id)
            if sequence is not None and sequence.kept is not None:
                kept = sequence.kept
        prompt = request.prompt
        ids = loaded.texts.encode(prompt.fixed) + loaded.texts.encode(prompt.body)
        assert {part.shape[1] for part in kept.values()} == {len(ids) - len(ids) // 2}
        cache = transformers.DynamicCache()
        logits = model(torch.tensor([ids]), past_key_values=cache).logits[0, -1]
        for layer, positions in kept.items():
            rows = cache.layers[layer]
            index = positions[None, :, :, None].expand(1, -1, -1, rows.keys.shape[-1])
            rows.keys, rows.values = rows.keys.gather(2, index), rows.values.gather(2, index)
        expected: list[int] = []
        while len(expected) < request.max_tokens and (token := int(logits.argmax())) != 256:
            expected.append(token)
            at = torch.tensor([[len(ids) + len(expected) - 1]])
            logits = model(torch.tensor([[token]]), past_key_values=cache, position_ids=at).logits[
                0, -1
            ]
        assert run.ended[request.generation_id].token_ids == tuple(expected)
        close(run)


def test_a_share_of_zero_changes_nothing(loaded: LoadedModel) -> None:
    for number in range(4):
        kept = alone(loaded, evicting(number, 0.0), free=True, eviction=SnapKv())
        assert kept == alone(loaded, free_request(number), free=True)


def test_an_engine_without_eviction_keeps_all(loaded: LoadedModel) -> None:
    assert alone(loaded, evicting(1, 0.9), free=True) == alone(loaded, free_request(1), free=True)


def test_eviction_shows_in_text_and_account(loaded: LoadedModel) -> None:
    run = Run(loaded, free=True, options={'max_running': 1, 'eviction': SnapKv()})
    run.core.apply(Submit(evicting(1, 0.75)))
    before = 0
    decided: list[EvictionDecided] = []
    while not decided:
        before = run.core.kv.used
        plan = run.core.plan(run.now_s)
        assert plan is not None
        run.core.complete(plan, run.backend.execute(plan), 0.0, 0.005)
        decided = [e for e in run.core.take_events() if isinstance(e, EvictionDecided)]
    (event,) = decided
    prefix = len(loaded.texts.encode(free_request(1).prompt.fixed))
    assert event.prompt_tokens == prefix + 40
    assert event.share == pytest.approx(0.75, abs=0.02)
    # The prefix is shared and stays; the body has gone, and a private copy has come.
    assert before <= event.prompt_tokens
    assert run.core.kv.used == prefix + event.prompt_tokens - event.evicted_tokens
    run.finish()
    close(run)
    assert run.ended['g1'].token_ids != alone(loaded, free_request(1), free=True)


@pytest.fixture(scope='module')
def expected(loaded: LoadedModel) -> dict[str, tuple[int, ...]]:
    return {
        f'g{n}': alone(loaded, mixed(n), free=True, eviction=SnapKv()) for n in range(GENERATIONS)
    }


@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize('room', [8192, 400, 210])
def test_interleaving(
    loaded: LoadedModel, expected: dict[str, tuple[int, ...]], room: int, seed: int
) -> None:
    """Suspension, batching, spilling and chunked prefill show in no token, evicted or not."""
    options = {
        'max_running': 5, 'prefill_chunk': 16, 'max_kv_tokens': room, 'eviction': SnapKv(),
    }  # fmt: skip
    run = Run(loaded, free=True, options=options)
    canceled = interleave(run, [mixed(n) for n in range(GENERATIONS)], random.Random(seed))
    assert run.ended.keys() == expected.keys()
    for name, ended in run.ended.items():
        if name in canceled and ended.reason == 'canceled':
            assert ended.token_ids == expected[name][: len(ended.token_ids)]
        else:
            assert ended.token_ids == expected[name], name
    assert (run.core.kv.spilled > 0) is (room < 8192)
    close(run)


def close(run: Run) -> None:
    """Nothing but prefixes is left, and they go."""
    for prefix in list(run.backend._prefixes):
        run.backend.drop_prefix(prefix)
    assert run.loaded.pool.used == 0
