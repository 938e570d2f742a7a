"""The benchmark of what is written ahead serves the same plans both ways."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip('torch')

from benchmarks.first_action.written_ahead import main

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engines


def test_it_measures_both_ways(tmp_path: Path) -> None:
    main(['--objects', '4', '--tasks', '1', '--json', str(tmp_path / 'figures.json')])
    figures = json.loads((tmp_path / 'figures.json').read_text())['figures']
    (row,) = figures['scenes']
    assert row['values'] > 0
    assert row['same_ids'] == 1.0
    assert row['steps'][0] > row['steps'][1] == row['most_steps'][1] == 0
    assert min(row['wanted_tokens'], row['dropped_tokens']) > 0
