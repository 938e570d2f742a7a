"""What a token's logits are does not depend on the other tokens of its step."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip('torch')

from support.engines.tiny_model import write_model

from timely_llm_ros.engines.torch.compute.attention import SHORT, AttentionStep
from timely_llm_ros.engines.torch.compute.model import load_model

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engines
LENGTH = 60


@pytest.mark.parametrize('family', ['llama', 'mistral', 'phi'])
def test_steps_of_any_numbers_of_tokens(tmp_path: Path, family: str) -> None:
    import torch
    import transformers

    folder = write_model(tmp_path / family, family)
    reference = transformers.AutoModelForCausalLM.from_pretrained(folder)
    loaded = load_model(str(folder), max_kv_tokens=512)
    rng = random.Random(1)
    contexts = [[rng.randrange(256) for _ in range(LENGTH)] for _ in range(5)]
    slots = [loaded.pool.allocate(LENGTH) for _ in contexts]
    done = [0] * len(contexts)
    mixed = False
    with torch.inference_mode():
        expected = reference(torch.tensor(contexts)).logits
        while min(done) < LENGTH:
            live = [place for place in range(len(contexts)) if done[place] < LENGTH]
            counts = {
                place: min(rng.choice([1, 1, 2, 3, SHORT, SHORT + 1, 20]), LENGTH - done[place])
                for place in rng.sample(live, rng.randint(1, len(live)))
            }
            order = sorted(counts, key=lambda place: counts[place] > SHORT)
            sizes = [counts[place] for place in order]
            short = {size for size in sizes if size <= SHORT}
            mixed |= len(short) > 1 and max(sizes) > SHORT
            ids: list[int] = []
            positions: list[int] = []
            ends = []
            for place, size in zip(order, sizes, strict=True):
                ids += contexts[place][done[place] : done[place] + size]
                positions += range(done[place], done[place] + size)
                ends.append(len(ids) - 1)
                done[place] += size
            parts = [(counts[place], slots[place][: done[place]]) for place in order]
            step = AttentionStep.build(parts, loaded.device)
            logits = loaded.forward(ids, positions, step, ends)
            for got, place in zip(logits, order, strict=True):
                wanted = expected[place, done[place] - 1]
                assert (got - wanted).abs().max() < 1e-3 * wanted.abs().max()
    assert mixed
