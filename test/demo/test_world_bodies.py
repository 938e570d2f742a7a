"""The demo's drones in a world: what their drivers and the world's program are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from timely_llm_ros.demo.workload import fleet, make_rooms, make_workload, with_budgets
from timely_llm_ros.demo.world_bodies import WorldBodies
from timely_llm_ros.demo.world_verdict import WorldVerdict, verdict_line
from timely_llm_ros.drivers import create_driver, read_options
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.world import EventLog, WorldTask, arrange, arrange_table, read_bays

ROBOTS = fleet(5)
ROOMS = make_rooms(ROBOTS, 0, {'tello': arrange, 'arm': arrange_table})


@pytest.fixture
def bodies(tmp_path: Path) -> WorldBodies:
    return WorldBodies(ROBOTS, tmp_path, ROOMS)


def test_each_driver_knows_the_address_that_the_world_gives_its_drone(bodies: WorldBodies) -> None:
    entries = json.loads((bodies.folder / 'drivers.yaml').read_text())
    arm = entries.pop('arm_1')
    assert arm.pop('driver') == 'ros'
    assert (arm['calls_file'], arm['perception']) == ('moveit', 'topic')
    ((_, command),) = bodies.commands()
    bays = read_bays(Path(command[command.index('--bays') + 1]))
    row = command[command.index('--row') + 1]
    assert [*entries, 'arm_1'] == [bay.robot for bay in bays] == [robot.name for robot in ROOMS]
    assert [bay.body for bay in bays] == ['drone'] * 4 + ['arm']
    for number, bay in enumerate(bays[:-1], 2):
        entry = entries[bay.robot]
        assert entry['address'] == f'{row}.{number}'
        assert entry.pop('perception') == 'topic'
        create_driver(find_skill_set('tello'), read_options(entry.pop('driver'), entry))


def test_the_world_has_the_things_that_tasks_are_about(bodies: WorldBodies) -> None:
    bays = {bay.robot: bay.scene for bay in read_bays(bodies.folder / 'bays.json')}
    tasks = make_workload(ROBOTS, 20, 0, ROOMS)
    for task in tasks:
        if task.robot in bays:
            assert bays[task.robot] == task.sample.scene
            judged = WorldTask(**(bodies.judged(task) or {}))
            assert set(judged.things) <= set(bays[task.robot].names)
            assert judged.things


def test_arms_without_a_body_and_tasks_that_are_refused_are_not_judged(tmp_path: Path) -> None:
    rooms = make_rooms(ROBOTS, 0, {'tello': arrange})
    bodies = WorldBodies(ROBOTS, tmp_path, rooms)
    assert bodies.note.endswith('drone_4; simulated: arm_1')
    tasks = with_budgets(make_workload(ROBOTS, 20, 0, rooms))
    unjudged = [task for task in tasks if bodies.judged(task) is None]
    assert {task.robot for task in unjudged if not task.impossible} == {'arm_1'}
    assert any(task.impossible for task in unjudged)


def test_a_robot_that_stays_in_its_room_is_asked_when_it_should_be_free() -> None:
    free_s: dict[str, float] = {}
    for task in make_workload(ROBOTS, 30, 1, ROOMS):
        assert task.at_s >= free_s.get(task.robot, 0.0)
        free_s[task.robot] = task.at_s + task.expected_execution_s


def test_verdicts_are_read_from_the_worlds_events() -> None:
    log = EventLog()
    log.note(1.0, 'hit', 'drone_1', 'tree_1')
    log.note(2.0, 'verdict', 'drone_1', 'task_1', 'succeeded: cat_1 in view')
    log.note(3.0, 'verdict', 'drone_2', 'task_2', 'failed: cat_2 was never in view')
    found = [WorldVerdict.of(line) for line in [*log.text.splitlines(), 'world of drone_1']]
    verdicts = [one for one in found if one is not None]
    assert [(one.key, one.succeeded) for one in verdicts] == [('task_1', True), ('task_2', False)]
    assert verdict_line(verdicts) == (
        'By the world 1 of 2 tasks succeeded; failed: task_2 (: cat_2 was never in view)'
    )
