from __future__ import annotations

import hashlib
import math
import pickle
import re
from typing import TYPE_CHECKING, Any

import pytest
from support.skills.plan_texts import ARM, LAB, SCENE, TELLO

from timely_llm_ros.errors import InvalidTaskError
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.messages import MAX_INSTRUCTION_LENGTH
from timely_llm_ros.skills.prompt import (
    build_prompt,
    fixed_part,
    scene_line,
    scene_text,
)
from timely_llm_ros.skills.scene import Relation, Scene, SceneObject

if TYPE_CHECKING:
    from timely_llm_ros.skills import SkillSet


@pytest.mark.parametrize(
    'change',
    [
        {'name': 'Cup'},
        {'name': ''},
        {'name': 'cup 1'},
        {'name': 'cup;land'},
        {'name': 'cup\n'},
        {'name': 'a' * 65},
        {'name': 'repeat'},
        {'name': 'if'},
        {'name': 'else'},
        {'kind': '9'},
        {'attribute': 'a-b'},
        {'support': '_'},
        {'relation': 'beside'},
        {'x_m': math.nan},
        {'z_m': math.inf},
    ],
)
def test_an_object_with_a_wrong_part_is_refused(change: dict[str, Any]) -> None:
    (key,) = change
    with pytest.raises(InvalidTaskError, match='expected'):
        SceneObject(**{'name': 'cup_1', 'kind': 'cup'} | change)
    assert key in SceneObject.__slots__


@pytest.mark.parametrize(
    ('skill_set', 'name', 'is_refused'),
    [
        (TELLO, 'land', True),
        (TELLO, 'is_visible', True),
        (TELLO, 'land_1', False),
        (TELLO, 'home', False),
        (ARM, 'home', True),
        (find_skill_set('chatbot'), 'end', False),
    ],
)
def test_an_object_with_the_name_of_a_skill_is_refused(
    skill_set: SkillSet, name: str, is_refused: bool
) -> None:
    scene = Scene((SceneObject('cup_1', 'cup'), SceneObject(name, 'sign')))
    if not is_refused:
        assert name in build_prompt(skill_set, scene, 'go there').body
        return
    with pytest.raises(InvalidTaskError) as caught:
        build_prompt(skill_set, scene, 'go there')
    assert str(caught.value) == (
        f"object name {name!r} is a skill of '{skill_set.name}': expected another name"
    )


def test_names_are_unique_and_found() -> None:
    with pytest.raises(InvalidTaskError, match="'cup_1': expected unique names"):
        Scene((SceneObject('cup_1', 'cup'), SceneObject('cup_1', 'box')))
    assert 'cup_1' in SCENE
    assert 'dog_1' not in SCENE
    assert SCENE.names == ('cat_3', 'cup_1', 'cup_10', 'bottle_2', 'box_4')
    item = SCENE.get('cup_10')
    assert item is not None
    assert item.distance_m == 5.0
    assert SCENE.get('dog_1') is None


def test_a_scene_travels_between_processes() -> None:
    copy = pickle.loads(pickle.dumps(SCENE))
    assert copy == SCENE
    assert 'cup_1' in copy


@pytest.mark.parametrize(
    ('name', 'x_m', 'line'),
    [
        ('cup_1', 1.25, 'red cup on table +1.2 +0.0=cup_1\n'),
        ('cup_1', -0.04, 'red cup on table +0.0 +0.0=cup_1\n'),
        ('cup_1', -1234.0, 'red cup on table -99.9 +0.0=cup_1\n'),
    ],
)
def test_an_object_is_told_in_one_line_of_one_shape(name: str, x_m: float, line: str) -> None:
    assert scene_line(SceneObject(name, 'cup', 'red', 'on', 'table', x_m)) == line


def test_the_prompt_is_the_fixed_part_then_the_scene_then_the_instruction() -> None:
    prompt = build_prompt(TELLO, SCENE, '  find\n the   cat ')
    assert prompt.fixed == fixed_part(TELLO)
    assert prompt.body.startswith('scene:\nplain cat on floor +1.0 +0.0=cat_3\n')
    assert prompt.body.endswith('=box_4\ntask: find the cat\nplan:\n')
    assert prompt.text == prompt.fixed + prompt.body


def test_a_chat_is_asked_for_an_answer_and_told_of_no_skills() -> None:
    chatbot = find_skill_set('chatbot')
    prompt = build_prompt(chatbot, Scene(), 'why is  the sky blue?')
    assert prompt.fixed == 'The answers below are plain text for a person who reads the answer.\n'
    assert prompt.body == 'Question: why is the sky blue?\nAnswer:\n'
    seen = build_prompt(chatbot, SCENE, 'what do you see?').body
    assert seen.startswith('What is there:\nplain cat on floor +1.0 +0.0=cat_3\n')
    assert seen.endswith('\nQuestion: what do you see?\nAnswer:\n')


def test_objects_at_one_place_are_told_together_in_their_order() -> None:
    places: list[tuple[Relation, str]] = [
        ('on', 'desk'),
        ('on', 'shelf'),
        ('on', 'desk'),
        ('under', 'desk'),
        ('on', 'desk'),
    ]
    scene = Scene(
        tuple(SceneObject(f'cup_{i}', 'cup', 'red', *place) for i, place in enumerate(places))
    )
    groups = [re.findall(r'=(\w+)', group) for group in scene_text(scene).split('\n\n')]
    assert groups == [['cup_0', 'cup_2', 'cup_4'], ['cup_1'], ['cup_3']]
    assert scene_text(Scene()) == ''


@pytest.mark.parametrize('instruction', ['', ' \n', 'x' * (MAX_INSTRUCTION_LENGTH + 1), 'a\x00b'])
def test_an_instruction_that_is_no_line_of_text_is_refused(instruction: str) -> None:
    with pytest.raises(InvalidTaskError, match='instruction'):
        build_prompt(TELLO, SCENE, instruction)


def test_every_kind_of_argument_is_told() -> None:
    lines = fixed_part(LAB).splitlines()
    assert (
        'pour(source,amount:g 0.5 to 12.25,speed:slow|fast|very_fast) pour from a bottle' in lines
    )
    assert 'freeze stop all motion' in lines


@pytest.mark.parametrize(
    ('skill_set', 'digest'), [(TELLO, 'd0901b81793b7e26'), (ARM, 'b5e80b1776ec78b1')]
)
def test_the_fixed_prompt_is_the_one_that_the_shipped_model_was_trained_on(
    skill_set: SkillSet, digest: str
) -> None:
    """Whoever changes it must train the model again, and then this."""
    assert hashlib.sha256(fixed_part(skill_set).encode()).hexdigest()[:16] == digest
