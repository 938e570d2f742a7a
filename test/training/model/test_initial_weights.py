"""Before any training the network finds objects, as it is meant to."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from transformers import LlamaForCausalLM

from timely_llm_ros.sample_tasks.generator import sample_task
from timely_llm_ros.skills.prompt import scene_text
from timely_llm_ros.training.model.auxiliary_targets import Hinter
from timely_llm_ros.training.model.export import export
from timely_llm_ros.training.model.initial_weights import LOOK_BACK, initialise
from timely_llm_ros.training.model.network import NetworkShape, PlannerNetwork
from timely_llm_ros.training.model.tokenizer import EOS_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenizers import Tokenizer

    from timely_llm_ros.sample_tasks import TaskSample

SCENE = """scene:
red cup on desk +0.1 -0.2=cup_7
blue pen on desk +0.3 +0.4=pen_7
green cup on desk -0.5 +0.1=cup_31

black dog near sofa -1.5 +2.1=dog_12
white dog under bed +1.5 -0.7=dog_4
"""


@pytest.fixture(scope='module')
def network(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The network before training, as transformers see it."""
    vocab = tokenizer.get_vocab()
    folder = tmp_path_factory.mktemp('initial') / 'model'
    network = PlannerNetwork(NetworkShape(len(vocab)))
    initialise(network, vocab=vocab)
    export(network, folder, {})
    return LlamaForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation='eager'
    ).eval()


@torch.inference_mode()
def share_found(
    network: Any,
    tokenizer: Tokenizer,
    kind: int,
    layer: int,
    head: int,
    hinted: Callable[[Hinter, TaskSample, list[int], list[int]], list[tuple[int, int]]],
) -> float:
    """Return how often the head looks at the number hinted at, of the right line of the scene."""
    rng = random.Random(kind)
    right = total = 0
    for _ in range(25):
        task = sample_task(rng, kind, 6)
        fixed = tokenizer.encode(f'scene:\n{scene_text(task.scene)}').ids
        told = tokenizer.encode(f'task: {task.instruction}\nplan:\n').ids
        ids = [*fixed, *told, *tokenizer.encode(task.plan).ids, EOS_ID]
        for place, hint in hinted(Hinter(tokenizer), task, told, ids[len(fixed) + len(told) :]):
            if not re.fullmatch(r'_\d+', tokenizer.id_to_token(hint) or ''):
                continue
            here = torch.tensor([ids[: len(fixed) + place + 1]])
            weights = network.model(here, output_attentions=True).attentions[layer][0, head, -1]
            looked = weights.argmax().item()
            right += looked < len(fixed) and ids[looked] == hint
            total += 1
    assert total >= 25
    return right / total


def test_a_noun_finds_the_object_with_its_adjective(network: Any, tokenizer: Tokenizer) -> None:
    def hinted(
        hinter: Hinter, task: TaskSample, told: Sequence[int], _plan: Sequence[int]
    ) -> list[tuple[int, int]]:
        return hinter.instruction(task, told)

    # A guess among all tokens of the scene would be right once in 80 times.
    assert share_found(network, tokenizer, 6, 1, 0, hinted) >= 0.5


def test_a_number_in_a_plan_finds_the_object_on_the_line_below(
    network: Any, tokenizer: Tokenizer
) -> None:
    def hinted(
        hinter: Hinter, task: TaskSample, told: Sequence[int], plan: Sequence[int]
    ) -> list[tuple[int, int]]:
        return [(len(told) + place, hint) for place, hint in hinter.plan(task, plan)]

    group = network.config.num_attention_heads // network.config.num_key_value_heads
    assert share_found(network, tokenizer, 10, 1, group, hinted) >= 0.9


def test_distances_are_those_of_a_scene_line(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode(SCENE).tokens
    end = [place for place, token in enumerate(tokens) if re.fullmatch(r'_\d+', token)][1]
    looked = [tokens[end - distance].strip('Ġ') for distance in LOOK_BACK]
    assert looked == ['pen', '+', '+', 'desk', 'on', 'blue', '_7', 'cup']
