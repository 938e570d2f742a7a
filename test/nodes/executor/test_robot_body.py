"""What drives the robots of an executor, from its parameters and its drivers file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.nodes.executor.node import robot_bodies
from timely_llm_ros.nodes.executor.parameters import ExecutorParameters
from timely_llm_ros.nodes.executor.robot_body import SharedBodies

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
    assert (first.driver, first.perception) == ('tello', 'none')
    assert first.options == {'address': '127.0.0.2'}
    assert (second.driver, second.perception) == ('simulated', '')


def test_eyes_that_nobody_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"drone_1.*perception 'sonar': expected one of"):
        robot_bodies(parameters(tmp_path / 'file', 'drone_1: {perception: sonar}'))


def test_a_guard_that_prepares_says_what_is_wrong_with_a_driver(tmp_path: Path) -> None:
    bodies = SharedBodies()
    bodies.prepare()
    bodies.remember(list(robot_bodies(parameters(tmp_path / 'file', 'drone_1: {wings: 2}'))))
    with pytest.raises(ConfigurationError, match='wings'):
        bodies.prepare()
