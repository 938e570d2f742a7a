"""What stands in for the robots of the demo."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING

import pytest

from timely_llm_ros.demo.bodies import TABLE_M, Bodies, MockBodies, RosBodies
from timely_llm_ros.demo.workload import fleet, make_workload, ros_fleet
from timely_llm_ros.drivers import create_driver, read_options
from timely_llm_ros.drivers.indy.environment import VARIABLE
from timely_llm_ros.drivers.ros import find_calls_file
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from pathlib import Path

ROBOTS = fleet(5)


@pytest.fixture
def mocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MockBodies:
    """Any Python will do for an SDK that is not started."""
    monkeypatch.setenv(VARIABLE, sys.executable)
    return MockBodies(ROBOTS, tmp_path / 'drivers.yaml')


def test_simulated_bodies_need_nothing() -> None:
    bodies = Bodies()
    assert bodies.commands() == ()
    assert bodies.parameters == {}
    assert [name for name, _ in bodies.groups(ROBOTS)] == [robot.name for robot in ROBOTS]


def test_every_robot_has_a_mock_of_its_own_that_its_driver_can_reach(mocks: MockBodies) -> None:
    entries = json.loads(mocks.file.read_text())
    assert set(entries) == {robot.name for robot in ROBOTS}
    programs = dict(mocks.commands())
    assert set(programs) == {'mock_tellos', 'mock_arm_1'}
    for robot in ROBOTS:
        entry = entries[robot.name]
        driver = entry.pop('driver')
        address = entry['address' if driver == 'tello' else 'host']
        assert sum(command.count(address) for command in programs.values()) == 1
        del entry['perception']
        create_driver(find_skill_set(robot.skill_set), read_options(driver, entry))
    assert 'simulated' not in mocks.note


def test_tellos_share_an_executor(mocks: MockBodies) -> None:
    groups = [[robot.name for robot in group] for _, group in mocks.groups(ROBOTS)]
    assert groups == [['drone_1', 'drone_2', 'drone_3', 'drone_4'], ['arm_1']]
    assert mocks.parameters == {'drivers_file': str(mocks.file)}


def test_what_an_arm_handles_lies_on_its_table(mocks: MockBodies) -> None:
    for task in make_workload(ROBOTS, 20, 0):
        fitted = mocks.fit(task)
        if task.robot != 'arm_1':
            assert fitted is task
            continue
        for old, new in zip(task.sample.scene.objects, fitted.sample.scene.objects, strict=True):
            distance_m = math.hypot(new.x_m, new.y_m)
            assert TABLE_M[0] - 1e-9 <= distance_m <= TABLE_M[1] + 1e-9
            assert old.x_m * new.y_m == pytest.approx(old.y_m * new.x_m)
            assert (old.name, old.kind) == (new.name, new.kind)


def test_a_robot_with_ros_interfaces_has_a_mock_of_what_its_calls_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    robots = ros_fleet(4)
    assert [(robot.name, robot.skill_set) for robot in robots] == [
        ('drone_1', 'tello'), ('rover_1', 'rover'), ('arm_1', 'arm'), ('drone_2', 'tello'),
    ]  # fmt: skip
    monkeypatch.setattr('importlib.util.find_spec', lambda name: name)
    bodies = RosBodies(robots, tmp_path / 'drivers.yaml')
    entries = json.loads(bodies.file.read_text())
    programs = dict(bodies.commands())
    for robot in robots:
        entry = entries[robot.name]
        driver = entry.pop('driver')
        program = programs[f'mock_{robot.name}']
        assert program[program.index('--calls') + 1] == entry['calls_file']
        assert find_calls_file(entry['calls_file']).is_file()
        del entry['perception']
        read_options(driver, entry)


def test_types_that_are_not_installed_are_named_with_what_builds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('importlib.util.find_spec', lambda name: None if 'as2' in name else name)
    with pytest.raises(ConfigurationError, match=r'expected as2_msgs to be .*ROBOTS=ros'):
        RosBodies(ros_fleet(1), tmp_path / 'drivers.yaml')
