"""Constrained plans of any model end complete and valid: here the model draws tokens at random."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.engines.tiny_model import byte_tokenizer, write_model

from timely_llm_ros.engines import GenerationRequest
from timely_llm_ros.engines.texts import TokenTexts, allow_all_or_none, load_texts
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.sample_tasks import sample_task
from timely_llm_ros.skills import PlanLimits, Prompt
from timely_llm_ros.skills.grammar import decoding_grammar
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.segments.plan_segmenter import PlanSegmenter
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engines

SKILL_SETS = {name: find_skill_set(name) for name in ('tello', 'arm')}
MERGED = ((';', '}'), (';}', ';'), ('}', ';'), ('(', '1'), ('"', ')'), ('9', '9'), ('o', 'n'))


@pytest.fixture(scope='module', params=['bytes', 'merged', 'words'])
def texts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TokenTexts:
    import json

    if request.param == 'words':
        return load_texts(find_model(''))
    folder: Path = tmp_path_factory.mktemp('model') / 'model'
    merged = MERGED if request.param == 'merged' else ()
    write_model(folder, vocabulary=257 + len(merged))
    (folder / 'tokenizer.json').write_text(json.dumps(byte_tokenizer(*merged)))
    return load_texts(str(folder))


def random_request(rng: random.Random) -> GenerationRequest:
    task = sample_task(rng, rng.randint(1, 11), rng.choice([4, 6]))
    limits = PlanLimits(
        segment_calls=rng.choice([256, 5, 30]),
        segment_s=rng.choice([1800.0, 150.0]),
        plan_calls=rng.choice([1024, 40]),
        plan_s=rng.choice([7200.0, 300.0]),
        segment_length=rng.choice([4096, 200]),
    )
    skill_set = replace(SKILL_SETS[task.skill_set], limits=limits)
    most = rng.choice([60, 100, 250])
    prompt = Prompt('', '')
    return GenerationRequest('r', prompt, skill_set, task.scene, NORMAL, 0.0, max_tokens=most)


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
