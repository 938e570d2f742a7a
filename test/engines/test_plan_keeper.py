"""Constrained plans of any model end complete and valid: here the model draws tokens at random."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.engines.random_plans import TOKENIZERS, random_request, tokenizer_of

from timely_llm_ros.engines.texts import allow_all_or_none
from timely_llm_ros.skills.grammar import decoding_grammar
from timely_llm_ros.skills.segments.plan_segmenter import PlanSegmenter

if TYPE_CHECKING:
    from timely_llm_ros.engines import GenerationRequest
    from timely_llm_ros.engines.texts import TokenTexts

pytestmark = pytest.mark.engines


@pytest.fixture(scope='module', params=TOKENIZERS)
def texts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TokenTexts:
    return tokenizer_of(request.param, tmp_path_factory.mktemp('model') / 'model')


def write_plan(texts: TokenTexts, request: GenerationRequest, rng: random.Random) -> int:
    """Draw a plan; return how many tokens it has, the one that ends it included."""
    whole_plan = rng.random() < 0.3
    room = rng.choice([10**6, 200, 80])
    grammar = decoding_grammar(request.skill_set, request.scene, observations=not whole_plan)
    state = texts.matcher(request, grammar, whole_plan=whole_plan, room=room)
    segmenter = PlanSegmenter(request.skill_set, request.scene, whole_plan=whole_plan)
    loops = rng.random() < 0.5
    tokens, context = 0, 0
    while True:
        bits = np.unpackbits(state.allowed.view(np.uint8), bitorder='little')
        allowed = np.flatnonzero(bits[: texts.size]).tolist()
        ends = [token for token in allowed if token in texts.end_ids]
        others = [token for token in allowed if token not in texts.end_ids]
        assert state.only == (allowed[0] if len(allowed) == 1 else None)
        marks = [it for it in others if set(texts.bytes_of(it)) & set(b'{r9')]
        if ends and (not others or rng.random() < 0.01):
            segmenter.finish()
            assert context <= room
            return tokens + 1
        token = rng.choice(marks if marks and loops and rng.random() < 0.8 else others)
        tokens, context = tokens + 1, context + 1
        state.take((token,))
        segmenter.push(texts.bytes_of(token).decode(), 1)
        assert segmenter.error is None
        if segmenter.awaits_value:
            said = texts.encode(segmenter.observe('true'))
            context += len(said)
            state.take(said, observed=True)


@pytest.mark.parametrize('seed', range(12))
def test_a_plan_of_random_tokens_ends_complete_valid_and_within_its_tokens(
    texts: TokenTexts, seed: int
) -> None:
    rng = random.Random(seed)
    for _ in range(3):
        request = random_request(rng)
        assert write_plan(texts, request, rng) <= request.max_tokens


def test_every_token_that_ends_a_text_may_come_where_one_may() -> None:
    mask = np.zeros(2, np.int32)
    mask[0] = 0b0100
    allow_all_or_none(mask, [2, 40])
    assert (mask[0], mask[1]) == (0b0100, 1 << 8)
    allow_all_or_none(mask, [7, 41])
    assert (mask[0], mask[1]) == (0b0100, 1 << 8)
