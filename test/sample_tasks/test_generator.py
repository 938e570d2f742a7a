"""The generated tasks: valid in the plan language, repeatable, with evaluation kept apart."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.skills.plan_texts import first_group

from timely_llm_ros.sample_tasks import Wordings
from timely_llm_ros.sample_tasks import wordings as data_wordings
from timely_llm_ros.sample_tasks import words as data_words
from timely_llm_ros.sample_tasks.generator import KINDS, ask, sample_scene, sample_task
from timely_llm_ros.sample_tasks.scenes import is_held_out
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.prompt import build_prompt
from timely_llm_ros.skills.statements import calls_of, render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SKILL_SETS = {name: find_skill_set(name) for name in ('tello', 'arm')}
OBSERVATION = re.compile(r'#(true|false) ')
WORD = re.compile(r'[a-z]+(?:_[a-z]+)*', re.IGNORECASE)


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('wordings', ['trained', 'held_out'])
def test_every_plan_is_valid_and_canonical(kind: int, wordings: Wordings) -> None:
    rng = random.Random(f'{kind} {wordings}')
    skill_set = SKILL_SETS[KINDS[kind].skill_set]
    for count in range(150):
        n_objects = (max(KINDS[kind].min_objects, 3), 5, 10, 20, 60)[count % 5]
        task = sample_task(rng, kind, n_objects, wordings=wordings)
        assert len(task.scene.objects) == n_objects
        statements = parse(task.plan, skill_set, task.scene.names)
        assert render(statements) == OBSERVATION.sub('', task.plan)
        assert build_prompt(skill_set, task.scene, task.instruction).body.endswith('plan:\n')
        skills = [call.skill for call in calls_of(statements)]
        if task.skill_set == 'tello':
            assert (skills[0] == 'takeoff') == (not task.urgent)
            assert skills[-1] == ('hover' if task.urgent else 'land')
        else:
            assert skills[-1] == 'home'


def test_the_same_seed_gives_the_same_task() -> None:
    for kind in KINDS:
        first, second = (sample_task(random.Random(7), kind, 12) for _ in range(2))
        assert first == second


@pytest.mark.parametrize(
    ('trained', 'held_out'),
    [
        (data_wordings.CORES, data_wordings.HELD_OUT_CORES),
        (data_wordings.MODIFIERS, data_wordings.HELD_OUT_MODIFIERS),
    ],
)
def test_held_out_wordings_are_new_but_made_of_known_words(
    trained: Mapping[str, Sequence[str]], held_out: Mapping[str, Sequence[str]]
) -> None:
    every = [*data_wordings.CORES.values(), *data_wordings.MODIFIERS.values()]
    known = {word for theme in every for core in theme for word in WORD.findall(core)}
    assert trained.keys() == held_out.keys()
    for theme, cores in held_out.items():
        seen = {text for core in trained[theme] for text in expanded(core)}
        for core in cores:
            assert not seen & set(expanded(core))
            assert set(WORD.findall(core)) <= known


def expanded(core: str) -> list[str]:
    """Every text that a template's alternatives stand for."""
    texts = ['']
    for part in re.split(r'(\[[^\]]*\])', core):
        choices = part[1:-1].split('|') if part.startswith('[') else [part]
        texts = [text + choice for text in texts for choice in choices]
    return texts


def test_scenes_for_training_and_evaluation_never_overlap() -> None:
    rng = random.Random(3)
    for kind in KINDS:
        for scenes in ('trained', 'held_out'):
            task = sample_task(rng, kind, 6, scenes=scenes)
            assert is_held_out(task.scene) == (scenes == 'held_out')


def test_about_one_scene_in_eight_is_held_out() -> None:
    rng = random.Random(4)
    held_out = sum(is_held_out(sample_scene(rng, (1, 5), 5)) for _ in range(2000))
    assert 150 < held_out < 350


def test_urgent_plans_move_away_from_the_object() -> None:
    rng = random.Random(5)
    for kind in (6, 7, 8):
        for _ in range(100):
            task = sample_task(rng, kind, 1)
            (item,) = task.scene.objects
            side = 'move_left' if item.y_m < 0 else 'move_right'
            assert f'{side}(' in task.plan
            if kind != 8:
                along = 'move_forward' if item.x_m < 0 else 'move_backward'
                assert f'{along}(' in task.plan


def test_cleaning_handles_exactly_what_lies_on_the_surface_in_scene_order() -> None:
    rng = random.Random(6)
    for _ in range(100):
        task = sample_task(rng, 10, 25)
        surface = first_group(r'wipe\((\w+)_\d+\)', task.plan)
        container = first_group(r'place\((\w+)\)', task.plan)
        wanted = [
            item.name
            for item in task.scene.objects
            if (item.relation, item.support) == ('on', surface) and item.name != container
        ]
        assert re.findall(r'pick\((\w+)\)', task.plan) == wanted


def test_sorting_handles_exactly_what_lies_on_the_surface_in_scene_order() -> None:
    rng = random.Random(7)
    for _ in range(100):
        task = sample_task(rng, 11, 25)
        taken = re.findall(r'sort_into\((\w+),', task.plan)
        first = task.scene.get(taken[0])
        assert first is not None
        surface = first.support
        assert surface in task.instruction
        assert taken == [
            item.name
            for item in task.scene.objects
            if (item.relation, item.support) == ('on', surface)
        ]


def test_sorting_puts_each_into_its_container() -> None:
    rng = random.Random(8)
    for _ in range(100):
        task = sample_task(rng, 11, 12)
        moves = dict(re.findall(r'sort_into\((\w+),(\w+)\)', task.plan))
        fruit = {to for item, to in moves.items() if item.split('_')[0] in data_words.FRUITS}
        others = {to for item, to in moves.items() if item.split('_')[0] in data_words.VEGETABLES}
        assert len(fruit) <= 1
        assert len(others) <= 1
        assert not fruit & others


def test_a_scene_without_the_right_objects_gives_no_task() -> None:
    scene = sample_scene(random.Random(9), (11,), 4)
    assert ask(random.Random(0), scene, 6) is None


@pytest.mark.parametrize(('kind', 'n_objects'), [(0, 5), (12, 5), (11, 3), (2, 1)])
def test_impossible_requests_are_refused(kind: int, n_objects: int) -> None:
    with pytest.raises(ValueError, match=f'kind {kind} with {n_objects} objects'):
        sample_task(random.Random(0), kind, n_objects)


def test_data_is_light_to_import() -> None:
    code = (
        'import sys, timely_llm_ros.sample_tasks.generator; '
        'sys.exit(any(name in sys.modules for name in ("torch", "transformers", "tokenizers")))'
    )
    assert subprocess.run([sys.executable, '-c', code], check=False).returncode == 0
