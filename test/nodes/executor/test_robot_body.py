"""What drives the robots of an executor, from its parameters and its drivers file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from timely_llm_ros.drivers import SimulatedOptions
from timely_llm_ros.drivers.tello import TelloOptions
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.nodes.executor.driver_choice import robot_bodies
from timely_llm_ros.nodes.executor.parameters import ExecutorParameters
from timely_llm_ros.nodes.executor.robot_body import RobotBody, SharedBodies

if TYPE_CHECKING:
    from pathlib import Path


def parameters(file: Path, text: str) -> ExecutorParameters:
    file.write_text(text)
    return ExecutorParameters(
        robots=('drone_1:tello', 'drone_2:tello'), driver='tello', drivers_file=str(file)
    )


def test_eyes_are_no_option_of_a_driver(tmp_path: Path) -> None:
    text = 'drone_1: {address: 127.0.0.2, perception: none}\ndrone_2: {driver: simulated}'
    first, second = robot_bodies(parameters(tmp_path / 'file', text))
    assert first.options == TelloOptions(address='127.0.0.2')
    assert first.perception == 'none'
    assert isinstance(second.options, SimulatedOptions)
    assert second.perception is None


def test_each_robot_has_its_own_envelope(tmp_path: Path) -> None:
    text = 'drone_1: {envelope: {maximum_height_m: 2}}\ndrone_2: {driver: simulated}'
    first, second = robot_bodies(parameters(tmp_path / 'file', text))
    assert first.envelope is not None
    assert first.envelope.maximum_height_m == 2
    assert second.envelope is None
    simulated = 'drone_1: {driver: simulated, envelope: {no_go: {stairs: {x: [1, 2]}}}}'
    first, _ = robot_bodies(parameters(tmp_path / 'file', simulated))
    assert first.envelope is not None
    assert list(first.envelope.no_go) == ['stairs']


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('drone_1: {perception: sonar}', r"drone_1.*perception 'sonar': expected one of"),
        ('drone_1: {driver: unicorn}', r"drone_1.*driver 'unicorn': expected one of indy"),
        ('drone_1: {wings: 2}', r"drone_1.*driver 'tello': option 'wings': expected one of"),
        ('drone_1: {address: 7}', r'drone_1.*address 7: expected a text'),
        ('drone_1: {address: [7]}', r'drone_1.*address \[7\]: expected a text'),
        ('drone_1: {driver: simulated, perception: none}', r"drone_1.*option 'perception'"),
        ('drone_1: fast', r"drone_1.*'fast': expected a mapping"),
        ('drone_1: {envelope: {ceiling: 2}}', r"drone_1.*envelope: 'ceiling': expected one of"),
        (
            'drone_1: {takeoff_when_needed: true, envelope: {maximum_height_m: 2}}',
            r'drone_1.*takeoff_when_needed: expected false with an envelope',
        ),
    ],
)
def test_what_no_driver_takes_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        robot_bodies(parameters(tmp_path / 'file', text))


def test_a_simulated_robot_has_the_executors_parameters_unless_the_file_says_otherwise(
    tmp_path: Path,
) -> None:
    given = replace(
        parameters(tmp_path / 'file', 'drone_2: {time_scale: 3}'),
        driver='simulated',
        simulated=SimulatedOptions(time_scale=2.0),
    )
    first, second = (body.options for body in robot_bodies(given))
    assert isinstance(first, SimulatedOptions)
    assert isinstance(second, SimulatedOptions)
    assert (first.time_scale, second.time_scale) == (2.0, 3.0)
    assert first.seed != second.seed


def test_a_robot_without_a_skill_set_names_the_parameter_that_is_missing() -> None:
    with pytest.raises(ConfigurationError) as caught:
        robot_bodies(ExecutorParameters(robot='drone_1'))
    assert str(caught.value).startswith(
        "parameter 'skill_set': '': expected the skill set of robot 'drone_1'"
    )


def test_a_driver_that_must_be_told_something_says_what() -> None:
    with pytest.raises(ConfigurationError, match=r"robot 'arm_1': .*'poses_file': is missing"):
        robot_bodies(ExecutorParameters(robot='arm_1', skill_set='arm', driver='trajectory'))


def test_a_guard_that_prepares_says_what_is_wrong_with_a_driver(tmp_path: Path) -> None:
    text = 'drone_1: {driver: trajectory, poses_file: /no/such/file}'
    bodies = SharedBodies()
    bodies.prepare()
    bodies.remember(robot_bodies(parameters(tmp_path / 'file', text)))
    with pytest.raises(ConfigurationError, match='/no/such/file'):
        bodies.prepare()


def test_robots_that_have_heard_nothing_are_forgotten(tmp_path: Path) -> None:
    bodies = SharedBodies()
    assert bodies.count == 0
    bodies.remember(robot_bodies(parameters(tmp_path / 'file', 'drone_1: {driver: simulated}')))
    assert bodies.count == 2
    bodies.keep(1)
    bodies.prepare()
    assert bodies.count == 1
    bodies.keep(0)
    bodies.prepare()


def test_a_guard_prepares_once_whenever_there_are_more_robots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(RobotBody, 'make_driver', lambda body, _: made.append(body.robot))
    robots = robot_bodies(parameters(tmp_path / 'file', 'drone_1: {driver: simulated}'))
    bodies = SharedBodies()
    bodies.prepare()
    assert made == []
    for known, expected in ((robots[:1], 1), (robots[:1], 1), (robots, 3), (robots, 3)):
        bodies.remember(known)
        bodies.prepare()
        assert len(made) == expected
