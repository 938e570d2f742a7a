"""How the program of a benchmark ends where its user has to do something: in a line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ('raised', 'code', 'told'),
    [
        (
            "ModuleNotFoundError('no matplotlib', name='matplotlib')",
            1,
            'error: the Python package matplotlib is not installed: expected what '
            '`make setup-dev` installs',
        ),
        # Shells call this 130.
        ('KeyboardInterrupt', -signal.SIGINT, 'broken off'),
    ],
)
def test_a_program_ends_in_one_line(tmp_path: Path, raised: str, code: int, told: str) -> None:
    (tmp_path / 'matplotlib.py').write_text(f'raise {raised}\n', encoding='utf-8')
    done = subprocess.run(
        [sys.executable, '-m', 'benchmarks.timelyllm.timelyllm'],
        env={**os.environ, 'PYTHONPATH': str(tmp_path)},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stderr, done.returncode) == (f'{told}\n', code)


@pytest.mark.parametrize('program', ['multibin.multibin', 'multibin.multibin_theory'])
def test_what_draws_at_last_asks_for_matplotlib_at_first(program: str) -> None:
    code = (
        'import sys\n'
        'sys.modules["matplotlib"] = None\n'
        f'from benchmarks.{program} import main\n'
        'sys.argv = ["program"]\n'
        'main()\n'
    )
    done = subprocess.run(
        [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'matplotlib'\n")
    assert not done.stdout
