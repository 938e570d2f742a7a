"""What a benchmark's file says of how it was called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common import results as _results

if TYPE_CHECKING:
    import pytest

DOCS = Path(__file__).resolve().parents[3] / 'docs'


def test_the_command_names_no_folder_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [
        str(DOCS.parent / 'benchmarks/trail/x.py'),
        '--n',
        '3',
        '--out=/tmp/y/z.json',
        str(DOCS),
        '-5',
        'a/b',
    ]
    monkeypatch.setattr(sys, 'argv', given)
    assert _results.command() == ('python -m benchmarks.trail.x --n 3 --out=z.json docs -5 a/b')
