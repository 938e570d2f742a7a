"""The demo's tasks."""

from __future__ import annotations

import itertools
import json

import pytest

from timely_llm_ros.demo.workload import (
    BURST_SPREAD_S,
    fleet,
    make_workload,
    ros_fleet,
)
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.utility import NORMAL, URGENT


def test_the_same_seed_gives_the_same_tasks() -> None:
    robots = fleet(8)
    first, second, other = (make_workload(robots, 12, seed) for seed in (3, 3, 4))
    assert first == second
    assert first != other


def test_a_fleet_has_drones_and_arms() -> None:
    robots = fleet(8)
    assert [robot.name for robot in robots if robot.skill_set == 'arm'] == ['arm_1', 'arm_2']
    assert sum(robot.skill_set == 'tello' for robot in robots) == 6
    assert len(fleet(1)) == 1


@pytest.mark.parametrize('robots', [0, -1, 17, 1000])
def test_a_fleet_out_of_range_is_refused(robots: int) -> None:
    with pytest.raises(ConfigurationError, match=str(robots)):
        fleet(robots)


@pytest.mark.parametrize('seed', range(3))
def test_tasks_compete_for_the_engine(seed: int) -> None:
    tasks = make_workload(fleet(8), 24, seed)
    assert len(tasks) == len({task.key for task in tasks}) == 24
    assert [task.at_s for task in tasks] == sorted(task.at_s for task in tasks)
    first = [task for task in tasks if task.at_s <= BURST_SPREAD_S]
    assert {task.robot for task in first} == {robot.name for robot in fleet(8)}
    assert any(task.sample.urgent for task in tasks)
    for task in tasks:
        assert task.utility is (URGENT if task.sample.urgent else NORMAL)


def test_a_robot_gets_a_task_only_when_it_should_be_free() -> None:
    free_s: dict[str, float] = {}
    for task in make_workload(fleet(6), 30, 1):
        assert task.at_s >= free_s.get(task.robot, 0.0)
        free_s[task.robot] = task.at_s + task.expected_execution_s


def test_a_command_is_plain_json() -> None:
    task = make_workload(fleet(2), 2, 0)[0]
    command = json.loads(json.dumps(task.command()))
    assert command['robot'] == task.robot
    assert len(command['scene']) == len(task.sample.scene.objects)
    assert set(command['utility']) == {'expected_response_s', 'slope_per_s', 'peak'}


@pytest.mark.parametrize('tasks', [0, 1001])
def test_a_number_of_tasks_out_of_range_is_refused(tasks: int) -> None:
    with pytest.raises(ConfigurationError, match=str(tasks)):
        make_workload(fleet(2), tasks, 0)


def test_robots_are_asked_for_what_their_skill_sets_have() -> None:
    robots = ros_fleet(6)
    kinds: dict[str, set[str]] = {}
    for task in make_workload(robots, 60, 0):
        kinds.setdefault(task.sample.skill_set, set()).add(task.kind)
        (robot,) = [robot for robot in robots if robot.name == task.robot]
        assert task.sample.skill_set == robot.skill_set
        assert task.expected_execution_s > 0
    assert kinds['rover'] == {'look_for', 'check_on', 'find_tool'}
    assert 'evade_animal' in kinds['tello']


@pytest.mark.parametrize('seed', range(5))
def test_a_drone_before_a_thing_is_not_asked_to_get_out_of_a_way_forwards(seed: int) -> None:
    (robot,) = fleet(1)
    room = Scene(
        (
            SceneObject('person_1', 'person', 'red', x_m=-2.0),
            SceneObject('pole_1', 'pole', 'red', x_m=2.0),
            SceneObject('dog_1', 'dog', 'red', 'under', 'table', x_m=1.0, y_m=3.0),
            SceneObject('pen_1', 'pen', 'red', 'on', 'desk', x_m=3.0, y_m=-1.0),
        )
    )
    tasks = make_workload((robot,), 40, seed, {robot: room})
    flown = [task.sample.plan for task in itertools.dropwhile(lambda it: it.sample.urgent, tasks)]
    assert any('move_backward' in plan for plan in flown)
    assert not any('move_forward' in plan for plan in flown)
