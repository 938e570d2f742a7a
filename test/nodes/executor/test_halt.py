"""What is remembered of halted robots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from timely_llm_ros.nodes.executor.halt import Halt, halted_folder

if TYPE_CHECKING:
    from pathlib import Path


def test_the_next_executor_knows_until_the_robot_is_released(tmp_path: Path) -> None:
    halt = Halt(tmp_path / 'new', '/fleet/drone_1')
    assert not halt.there
    halt.set()
    halt.set()
    assert Halt(tmp_path / 'new', '/fleet/drone_1').there
    halt.release()
    halt.release()
    assert not Halt(tmp_path / 'new', '/fleet/drone_1').there


def test_no_two_names_are_one(tmp_path: Path) -> None:
    Halt(tmp_path, '/a/b_c').set()
    assert not Halt(tmp_path, '/a_b/c').there
    assert not Halt(tmp_path, '/a/b/c').there


def test_what_cannot_be_remembered_holds_as_long_as_the_program(tmp_path: Path) -> None:
    (tmp_path / 'file').touch()
    halt = Halt(tmp_path / 'file', '/drone_1')
    with pytest.raises(OSError, match='file'):
        halt.set()
    assert halt.there


def test_robots_are_remembered_beside_the_logs_of_ros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('ROS_HOME', '/somewhere')
    assert str(halted_folder()) == '/somewhere/timely_llm_ros/halted'
    monkeypatch.delenv('ROS_HOME')
    monkeypatch.setenv('HOME', '/home/pilot')
    assert str(halted_folder()) == '/home/pilot/.ros/timely_llm_ros/halted'


def test_robots_of_two_domains_are_halted_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv('ROS_DOMAIN_ID', '3')
    Halt(tmp_path, '/drone_1').set()
    monkeypatch.setenv('ROS_DOMAIN_ID', '4')
    assert not Halt(tmp_path, '/drone_1').there
    monkeypatch.setenv('ROS_DOMAIN_ID', '3')
    assert Halt(tmp_path, '/drone_1').there
