"""The world judges: a task succeeds by what is the case, whatever the robot says."""

from __future__ import annotations

import random

import pytest
from support.robots.worlds import fly, make_world

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.sample_tasks import ask, kinds_of, sample_scene
from timely_llm_ros.world import World, WorldTask, arrange

LOOK = WorldTask('t1', 'd1', 'look_for', ('cat_1',))
ALARM = WorldTask('t1', 'd1', 'avoid_injury', (), 'person_1', 2.0)


def outcome(world: World) -> str:
    (event,) = (event for event in world.log.events if event.event == 'verdict')
    return event.detail


def test_a_thing_is_found_that_was_in_view_from_nearby() -> None:
    world = make_world()
    fly(world, 'takeoff;goto(cat_1);take_picture;land;', task=LOOK)
    assert outcome(world) == 'succeeded: cat_1 in view, pictures: 1'


def test_a_picture_of_something_else_finds_nothing() -> None:
    world = make_world()
    fly(world, 'takeoff;goto(key_1);take_picture;land;', task=LOOK)
    assert outcome(world).startswith('failed: cat_1 in view from 3.')


def test_a_cup_under_a_table_is_found_from_beside_the_table() -> None:
    world = make_world()
    task = WorldTask('t1', 'd1', 'find_under', ('cup_1',))
    fly(world, 'takeoff;goto(cup_1);move_down(30);take_picture;land;', task=task)
    assert outcome(world) == 'succeeded: cup_1 in view, pictures: 1'


@pytest.mark.parametrize(
    ('plan', 'late_s', 'succeeds'),
    [
        ('move_right(100);move_forward(50);hover;', 0.0, True),
        ('move_right(100);move_forward(50);hover;', 5.0, False),
        ('', 0.0, False),
    ],
)
def test_whoever_comes_does_not_wait_for_a_late_plan(
    plan: str, late_s: float, succeeds: bool
) -> None:
    world = make_world()
    fly(world, plan, task=ALARM, late_s=late_s, stay_s=12.0)
    assert outcome(world).startswith('succeeded' if succeeds else 'failed')


def test_a_task_with_a_danger_is_judged_when_that_has_come() -> None:
    world = make_world()
    fly(world, 'move_right(100);', task=ALARM)
    assert all(event.event != 'verdict' for event in world.log.events)
    world.advance(world.now_s + 10.0)
    assert outcome(world)


def test_a_danger_has_to_be_something_that_moves() -> None:
    with pytest.raises(ConfigurationError, match="danger 'cup_1'"):
        make_world().begin(WorldTask('t1', 'd1', 'avoid_injury', (), 'cup_1'))


def test_the_right_plans_of_sample_tasks_succeed_in_the_world() -> None:
    rng = random.Random(0)
    kinds = [kind for kind in kinds_of('tello') if kind.name != 'check_for']
    scene = arrange(sample_scene(rng, [kind.number for kind in kinds], 10))
    world = make_world(scene)
    for number, kind in enumerate(kinds):
        sample = ask(rng, scene, kind.number)
        if sample is None:
            continue
        task = WorldTask.of(f't{number}', 'd1', sample)
        plan = sample.plan.replace('repeat(4){turn_cw(90);delay(500);};', '')
        if 'if(' not in plan:
            fly(world, plan, scene, task=task, stay_s=10.0 * kind.urgent)
    verdicts = [event for event in world.log.events if event.event == 'verdict']
    assert len(verdicts) >= 3
    assert [event.detail for event in verdicts if event.detail.startswith('failed')] == []
