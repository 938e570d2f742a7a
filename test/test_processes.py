"""Ports of Fast DDS that killed processes left half made go, and programs have a profile."""

from __future__ import annotations

import fcntl
import os
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from timely_llm_ros import processes
from timely_llm_ros.cli import doctor_command
from timely_llm_ros.processes import (
    PROFILES,
    TRANSPORTS,
    clear_shared_memory,
    dead_ports,
    prepare_for_dds,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize('age_s', [60.0, -3600.0])
def test_only_half_made_ports_are_removed(tmp_path: Path, age_s: float) -> None:
    """The wall clock may have been set back by an hour since."""
    then_s = time.time() - age_s
    for name, size in (
        ('fastdds_port7411', 0),
        ('fastdds_port7411_el', 0),
        ('fastdds_port7413', 9),
        ('sem.fastdds_port7411_mutex', 0),
        ('fastdds_portable', 0),
    ):
        (tmp_path / name).write_bytes(b'x' * size)
        os.utime(tmp_path / name, (then_s, then_s))
    # This one is being made.
    (tmp_path / 'fastdds_port7415').touch()
    dead = tmp_path / 'fastdds_port7411'
    assert dead_ports(tmp_path) == [dead]
    (finding,) = doctor_command.check_shared_memory(tmp_path)
    assert (finding.level, finding.mend) == ('note', f'rm {dead}')
    clear_shared_memory(tmp_path)
    assert not dead.exists()
    assert len(list(tmp_path.iterdir())) == 5
    (finding,) = doctor_command.check_shared_memory(tmp_path)
    assert finding.level == 'ok'


def test_memory_that_nobody_locks_any_more_is_removed(tmp_path: Path) -> None:
    then_s = time.time() - 60.0
    dead, alive, young, other = (
        tmp_path / f'fastdds_{name}' for name in ('0' * 16, 'a' * 16, '1' * 16, 'port7413')
    )
    for memory in (dead, alive, young, other):
        lock = memory.with_name(f'{memory.name}_el')
        for path in (memory, lock):
            path.write_bytes(b'x')
            if memory is not young:
                os.utime(path, (then_s, then_s))
    with alive.with_name(f'{alive.name}_el').open('rb') as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        clear_shared_memory(tmp_path)
        left = {path.name.removesuffix('_el') for path in tmp_path.iterdir()}
    assert left == {alive.name, young.name, other.name}


@pytest.fixture
def without_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(processes, 'clear_shared_memory', lambda: None)
    for name in (TRANSPORTS, *PROFILES):
        # Set first, so that what the code under test sets is taken back.
        monkeypatch.setenv(name, '')
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize('version', [2, 3])
def test_programs_have_a_profile_that_can_be_read(
    version: int, without_profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rclpy = without_profiles / 'lib' / 'python3' / 'site-packages' / 'rclpy' / '__init__.py'
    (without_profiles / 'share' / {2: 'fastrtps', 3: 'fastdds'}[version]).mkdir(parents=True)
    monkeypatch.setattr(processes, 'find_spec', lambda _: SimpleNamespace(origin=str(rclpy)))
    prepare_for_dds()
    (name,) = set(PROFILES) & set(os.environ)
    assert name == {3: PROFILES[0], 2: PROFILES[1]}[version]
    assert ET.parse(os.environ[name]).getroot().tag == 'dds'
    assert os.environ[TRANSPORTS].startswith('UDPv4')


@pytest.mark.parametrize('name', PROFILES)
def test_the_users_profile_is_left_alone(
    name: str, without_profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, 'mine.xml')
    prepare_for_dds()
    assert {key: os.environ.get(key) for key in (TRANSPORTS, *PROFILES)} == {
        TRANSPORTS: None,
        **dict.fromkeys(PROFILES),
        name: 'mine.xml',
    }


def test_a_profile_where_the_program_is_started_is_left_alone(without_profiles: Path) -> None:
    (without_profiles / 'DEFAULT_FASTDDS_PROFILES.xml').touch()
    prepare_for_dds()
    assert not set(os.environ) & {TRANSPORTS, *PROFILES}
