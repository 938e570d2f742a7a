"""The suites' tasks make a load that depends on a seed alone, and keeps their plans' shape."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from support.engines.freeze_server import Bytes

from benchmarks.suites import OURS, best_of
from benchmarks.suites.load import serve, systems
from benchmarks.workloads import Shape, compose_of_others, describe_plans, shape_of
from benchmarks.workloads.plans_of_others import MOST_TASKS
from timely_llm_ros.evaluation.suites import SuiteTask
from timely_llm_ros.skills import Call, Scene, SceneObject, parse
from timely_llm_ros.skills.loading import find_skill_set

SKILLS = find_skill_set('virtualhome')
SCENE = Scene((SceneObject('lamp_1', 'lamp'), SceneObject('bed_2', 'bed')))


def shape(plan: str, *tokens: int) -> Shape:
    calls = tuple(it for it in parse(plan, SKILLS, SCENE) if isinstance(it, Call))
    return Shape('virtualhome', tokens, calls, SuiteTask('t', 'do', SCENE, SCENE, plan), SKILLS)


SHAPES = [
    shape('walk(lamp_1);switchon(lamp_1);', 7, 9),
    shape('walk(bed_2);lie(bed_2);sleep;', 7, 8, 2),
]


def test_a_load_follows_from_its_seed_and_keeps_the_shape_of_plans() -> None:
    load = compose_of_others(SHAPES, 2.0, 5, 60.0, 0)
    assert load == compose_of_others(SHAPES, 2.0, 5, 60.0, 0)
    assert load != compose_of_others(SHAPES, 2.0, 5, 60.0, 1)
    assert {tuple(it.tokens for it in task.segments) for task in load.tasks} == {(7, 9), (7, 8, 2)}
    for task in load.tasks:
        # A walk takes six seconds, give or take two standard deviations of 15 %.
        assert 4.2 <= task.segments[0].execution_s <= 7.8
    assert {task.group for task in load.tasks} == {'normal', 'urgent'}
    moments = [task.at_s for task in load.tasks]
    assert max(moments.count(at_s) for at_s in moments) <= MOST_TASKS
    assert 60 <= len(load.tasks) <= 200


def test_a_shape_has_the_tokens_of_each_statement() -> None:
    suite: Any = SimpleNamespace(name='virtualhome', skill_set=SKILLS)
    plan, texts = 'walk(lamp_1);switchon(lamp_1);', Bytes()
    task = SuiteTask('t', 'do', SCENE, SCENE, plan)
    found = shape_of(suite, task, parse(plan, SKILLS, SCENE), texts, texts.encode(plan))
    assert found.tokens == (len('walk(lamp_1);'), len('switchon(lamp_1);'))
    assert [call.skill for call in found.calls] == ['walk', 'switchon']


def test_what_plans_cost_is_told() -> None:
    found = describe_plans(SHAPES)
    assert found['mean_actions'] == 2.5
    assert found['mean_tokens'] == 16.5
    assert found['most_tokens'] == 17


def test_a_way_is_shown_at_the_batch_with_which_it_earns_most() -> None:
    utilities = {OURS: 0.2, 'edf, at most 4': 0.1, 'edf, at most 8': 0.3, 'fcfs, at most 4': -1.0}
    assert best_of(utilities) == [OURS, 'edf, at most 8', 'fcfs, at most 4']


def test_every_system_serves_the_load() -> None:
    load = compose_of_others(SHAPES, 1.0, 5, 10.0, 0)
    for system in systems((4,)):
        assert serve(system, [load], 'toy').utility <= 2.0
