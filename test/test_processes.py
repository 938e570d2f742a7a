"""Ports of Fast DDS that killed processes left half made are found, told and removed."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from timely_llm_ros.cli import doctor_command
from timely_llm_ros.processes import clear_dead_ports, dead_ports

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
    clear_dead_ports(tmp_path)
    assert not dead.exists()
    assert len(list(tmp_path.iterdir())) == 5
    (finding,) = doctor_command.check_shared_memory(tmp_path)
    assert finding.level == 'ok'
