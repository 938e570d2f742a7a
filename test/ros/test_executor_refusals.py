"""An executor that cannot start says why, in one line, and touches no robot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120.0


def start(**parameters: object) -> subprocess.CompletedProcess[str]:
    """Run the program until it ends by itself."""
    command = [sys.executable, str(ROOT / 'scripts' / 'executor'), '--ros-args']
    for name, value in parameters.items():
        command += ['-p', f'{name}:={json.dumps(value)}']
    return subprocess.run(
        command,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


@pytest.mark.parametrize(
    ('parameters', 'reason'),
    [
        (
            {'robot': 'drone_1', 'skill_set': 'tello', 'driver': 'unicorn'},
            "parameter 'driver': 'unicorn': expected one of simulated, indy, ros, tello, "
            'trajectory',
        ),
        (
            {'robot': 'drone_1'},
            "parameter 'skill_set': '': expected the skill set of robot 'drone_1': the name of a "
            'shipped one, for example tello or arm, or the path of a file',
        ),
        (
            # Refused when the robot is to be connected.
            {'robot': 'drone_1', 'skill_set': 'tello', 'journal_path': '/no/such/folder/journal'},
            "journal '/no/such/folder/journal': expected a writable file: "
            'No such file or directory',
        ),
    ],
)
def test_a_refused_configuration_is_one_line(parameters: dict[str, object], reason: str) -> None:
    done = start(**parameters)
    assert done.returncode in (1, 2)
    assert done.stderr == f'executor: {reason}\n'
