"""The training network: it is Llama, and a block sees its own scene and itself alone."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from timely_llm_ros.training.model.batches import BatchSource
from timely_llm_ros.training.model.export import export
from timely_llm_ros.training.model.initial_weights import LOOK_BACK, PLAN_LOOK_BACK, initialise
from timely_llm_ros.training.model.muon import orthogonalised
from timely_llm_ros.training.model.network import NetworkShape, PackedBatch, PlannerNetwork
from timely_llm_ros.training.model.train import Recipe, main

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tokenizers import Tokenizer


@pytest.fixture(scope='module')
def network(tokenizer: Tokenizer) -> PlannerNetwork:
    torch.set_num_threads(1)
    network = PlannerNetwork(NetworkShape(tokenizer.get_vocab_size()))
    initialise(network, seed=3)
    with torch.no_grad():
        for parameter in network.parameters():
            # As exported, and no bias or norm left at a value that would hide a mistake.
            parameter.add_(torch.randn_like(parameter) * 0.02)
            parameter.copy_(parameter.bfloat16())
        # The first layer looks back by position alone.
        network.q[0] = 0.0
        network.k[0] = 0.0
    return network


def drawn(tokenizer: Tokenizer, skill_set: str, progress: float, tokens: int = 700) -> PackedBatch:
    return BatchSource(tokenizer, seed=5, tokens=tokens).draw(skill_set, round(99 * progress), 99)


@pytest.mark.parametrize(('skill_set', 'progress'), [('tello', 0.1), ('arm', 0.5)])
def test_exported_weights_give_the_same_hidden_states_in_transformers(
    tokenizer: Tokenizer, network: PlannerNetwork, tmp_path: Path, skill_set: str, progress: float
) -> None:
    export(network, tmp_path / 'model', {'seed': 3})
    llama = LlamaForCausalLM.from_pretrained(tmp_path / 'model', dtype=torch.float32).eval()
    assert llama.lm_head.weight is llama.model.embed_tokens.weight
    batch = drawn(tokenizer, skill_set, progress)
    with torch.inference_mode():
        ours = network.blocks_hidden(batch, dtype=torch.float32).view(*batch.blocks.shape, -1)
        compared = 0
        for scene in range(batch.scenes.shape[0]):
            for row in range(batch.blocks.shape[1]):
                index = batch.block_index[scene, row]
                for block in range(int(index.max()) + 1):
                    inside = index == block
                    before = torch.cat((batch.fixed, batch.scenes[scene]))
                    ids = torch.cat((before, batch.blocks[scene, row, inside]))
                    theirs = llama.model(ids[None]).last_hidden_state[0, before.numel() :]
                    torch.testing.assert_close(
                        ours[scene, row, inside], theirs, rtol=2e-3, atol=2e-3
                    )
                    compared += 1
    assert compared > 4


def test_a_block_does_not_see_its_neighbours(tokenizer: Tokenizer, network: PlannerNetwork) -> None:
    batch = drawn(tokenizer, 'tello', 0.1)
    second = batch.block_index == 1
    assert second.any()
    changed = dataclasses.replace(batch, blocks=batch.blocks.masked_fill(second, 77))
    with torch.inference_mode():
        before, after = (
            network.blocks_hidden(one, dtype=torch.float32).view(*batch.blocks.shape, -1)
            for one in (batch, changed)
        )
    others = (batch.block_index >= 0) & ~second
    torch.testing.assert_close(before[others], after[others])
    assert not torch.allclose(before[second], after[second], atol=1e-2)


@pytest.mark.parametrize(('layer', 'distances'), [(0, LOOK_BACK), (2, PLAN_LOOK_BACK)])
def test_heads_look_back_as_they_are_told_to(
    tokenizer: Tokenizer, layer: int, distances: Sequence[int]
) -> None:
    shape = NetworkShape(tokenizer.get_vocab_size())
    network = PlannerNetwork(shape)
    initialise(network, vocab=tokenizer.get_vocab())
    length, groups = 40, shape.num_attention_heads // shape.num_key_value_heads
    queries = network.q_bias[layer].detach().view(1, shape.num_attention_heads, shape.head_dim)
    keys = network.k_bias[layer].detach().view(1, shape.num_key_value_heads, shape.head_dim)
    half = shape.head_dim // 2

    def turned(values: Tensor) -> Tensor:
        cosines, sines = network.cosines[:length, None], network.sines[:length, None]
        swapped = torch.cat((-values[..., half:], values[..., :half]), dim=-1)
        return values * cosines + swapped * sines

    scores = torch.einsum(
        'qhd,khd->hqk', turned(queries), turned(keys).repeat_interleave(groups, 1)
    )
    for head, distance in enumerate(distances):
        assert scores[head, length - 1].argmax().item() == length - 1 - distance


def test_targets_are_plan_tokens_without_observations(tokenizer: Tokenizer) -> None:
    observations = {tokenizer.encode(text).ids[0] for text in ('#true ', '#false ')}
    seen = set()
    source = BatchSource(tokenizer, seed=9)
    for _ in range(20):
        batch = source.draw('tello', 20, 100)
        assert not observations & set(batch.targets.flatten().tolist())
        seen |= observations & set(batch.blocks.flatten().tolist())
        assert (batch.block_index[batch.targets >= 0] >= 0).all()
    assert seen == observations


def test_a_seed_draws_the_same_batches(tokenizer: Tokenizer) -> None:
    first, second = (drawn(tokenizer, 'arm', 0.9) for _ in range(2))
    assert torch.equal(first.blocks, second.blocks)
    assert torch.equal(first.scenes, second.scenes)


@pytest.mark.parametrize('size', [(3, 16, 16), (2, 48, 16), (2, 16, 48)])
def test_muon_brings_singular_values_near_one(size: tuple[int, int]) -> None:
    matrices = torch.randn(size, generator=torch.Generator().manual_seed(0))
    singular = torch.linalg.svdvals(orthogonalised(matrices))
    assert singular.min() > 0.3
    assert singular.max() < 1.4


def test_learning_rate_rises_holds_and_falls() -> None:
    recipe = Recipe(steps=1000)
    factors = [recipe.rate_factor(step) for step in range(1000)]
    assert factors[0] == 0.0
    assert max(factors) == 1.0
    assert 0 < factors[-1] < 0.05


@pytest.mark.parametrize('arguments', [['--steps', '0']])
def test_wrong_options_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert 'expected' in capsys.readouterr().err


def test_scenes_grow_with_the_steps_and_some_are_long(tokenizer: Tokenizer) -> None:
    source = BatchSource(tokenizer, seed=2, tokens=700)
    words = [source.draw('tello', step, 100).scenes.shape[1] for step in (0, 20, 90, 91, 98)]
    assert words[0] < words[2]
    assert words[3] > 200, 'one in seven'
    assert words[4] > 200
