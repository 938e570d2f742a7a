"""The benchmark of first actions serves the same plans both ways and counts their steps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip('torch')

from benchmarks.first_action.first_action import main

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engines


def test_it_measures_both_ways(tmp_path: Path) -> None:
    main(['--objects', '4', '--tasks', '1', '--json', str(tmp_path / 'figures.json')])
    (rows,) = json.loads((tmp_path / 'figures.json').read_text())['figures']['models'].values()
    found = [(row['batch'], row['scenes']) for row in rows]
    assert found == [(1, 'new'), (8, 'new'), (8, 'known')]
    for row in rows:
        assert row['plans'] == 11
        assert row['same_ids'] == row['same_text'] == 1.0
        assert 0.3 < row['steps_per_token'] < 0.7
        assert row['steps'][1] < row['steps'][0]
        assert min(row['plans_per_cpu_s']) > 0
    # Of prompts that are known but for their ends, more are read in a step.
    assert rows[2]['steps'][0] < rows[1]['steps'][0]
