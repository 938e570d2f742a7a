"""The tokenizer: any text, byte for byte; names, positions and plans in few tokens."""

from __future__ import annotations

import random
from itertools import chain
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from timely_llm_ros.sample_tasks.generator import KINDS, sample_task
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.prompt import fixed_part, scene_line
from timely_llm_ros.skills.scene import SceneObject
from timely_llm_ros.training.model.tokenizer import (
    EOS,
    EOS_ID,
    PAD,
    PAD_ID,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

LINE_TOKENS = 12
PLAN_LIMITS = {'tello': 40, 'arm': 100}


@examples(100)
@given(text=st.text(max_size=200))
def test_any_text_comes_back_as_it_was(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_special_tokens_have_their_ids(tokenizer: Tokenizer) -> None:
    assert tokenizer.token_to_id(EOS) == EOS_ID
    assert tokenizer.token_to_id(PAD) == PAD_ID


@pytest.mark.parametrize(
    ('text', 'pieces'),
    [
        ('cat_3', ['cat', '_3']),
        ('goto(cat_3);land;', ['goto', '(', 'cat', '_3', ');', 'land', ';']),
        (
            'is_visible(key_2);#true take_picture;',
            ['is_visible', '(', 'key', '_2', ');', '#true ', 'take_picture', ';'],
        ),
        ('move_up(150);', ['move_up', '(', '150', ');']),
        ('log("tool found");', ['log', '("', 'tool', ' found', '");']),
    ],
)
def test_plan_text_is_cut_at_its_joints(tokenizer: Tokenizer, text: str, pieces: list[str]) -> None:
    ids = tokenizer.encode(text).ids
    assert [tokenizer.decode([token]) for token in ids] == pieces


def test_every_object_line_has_one_length(tokenizer: Tokenizer) -> None:
    rng = random.Random(0)
    for kind in KINDS:
        for item in sample_task(rng, kind, 20).scene.objects:
            assert len(tokenizer.encode(scene_line(item)).ids) == LINE_TOKENS
    far = SceneObject('cup_99', 'cup', x_m=-99.9, y_m=12.3)
    assert len(tokenizer.encode(scene_line(far)).ids) == LINE_TOKENS


def test_parts_of_a_prompt_can_be_encoded_apart(tokenizer: Tokenizer) -> None:
    rng = random.Random(1)
    for kind, spec in KINDS.items():
        fixed = fixed_part(find_skill_set(spec.skill_set))
        task = sample_task(rng, kind, 5)
        body = ''.join(map(scene_line, task.scene.objects)) + f'task: {task.instruction}\nplan:\n'
        apart = [tokenizer.encode(part).ids for part in (fixed, body, task.plan)]
        assert tokenizer.encode(fixed + body + task.plan).ids == [*chain(*apart)]


def test_plans_are_short(tokenizer: Tokenizer) -> None:
    rng = random.Random(2)
    for kind, spec in KINDS.items():
        for _ in range(50):
            plan = sample_task(rng, kind, 20).plan
            assert len(tokenizer.encode(plan).ids) <= PLAN_LIMITS[spec.skill_set]
