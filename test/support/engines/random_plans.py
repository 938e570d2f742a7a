"""Requests of random limits, and tokenizers of the kinds that models have."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from support.engines.tiny_model import byte_tokenizer, write_model

from timely_llm_ros.engines import GenerationRequest
from timely_llm_ros.engines.texts import load_texts
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.sample_tasks import sample_task
from timely_llm_ros.skills import PlanLimits, Prompt
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from timely_llm_ros.engines.texts import TokenTexts

TOKENIZERS = ('bytes', 'merged', 'words')
MERGED = ((';', '}'), (';}', ';'), ('}', ';'), ('(', '1'), ('"', ')'), ('9', '9'), ('o', 'n'))

_SKILL_SETS = {name: find_skill_set(name) for name in ('tello', 'arm')}


def tokenizer_of(kind: str, folder: Path) -> TokenTexts:
    """Return one of the tokenizers; ``folder`` is where a model may be written."""
    if kind == 'words':
        return load_texts(find_model(''))
    merged = MERGED if kind == 'merged' else ()
    write_model(folder, vocabulary=257 + len(merged))
    (folder / 'tokenizer.json').write_text(json.dumps(byte_tokenizer(*merged)))
    return load_texts(str(folder))


def random_request(rng: random.Random) -> GenerationRequest:
    """Return a request for a plan whose limits are near or far."""
    task = sample_task(rng, rng.randint(1, 11), rng.choice([4, 6]))
    limits = PlanLimits(
        segment_calls=rng.choice([256, 5, 30]),
        segment_s=rng.choice([1800.0, 150.0]),
        plan_calls=rng.choice([1024, 40]),
        plan_s=rng.choice([7200.0, 300.0]),
        segment_length=rng.choice([4096, 200]),
    )
    skill_set = replace(_SKILL_SETS[task.skill_set], limits=limits)
    most = rng.choice([60, 100, 250])
    prompt = Prompt('', '')
    return GenerationRequest('r', prompt, skill_set, task.scene, NORMAL, 0.0, max_tokens=most)
