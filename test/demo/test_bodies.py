"""What stands in for the robots of the demo."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING

import pytest

from timely_llm_ros.demo.bodies import TABLE_M, Bodies, MockBodies
from timely_llm_ros.demo.workload import fleet, make_workload
from timely_llm_ros.drivers import create_driver, read_options
from timely_llm_ros.drivers.indy.environment import VARIABLE
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
