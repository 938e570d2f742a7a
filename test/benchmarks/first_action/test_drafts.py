"""The benchmark of drafts serves the same plans both ways and counts their steps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip('torch')

from benchmarks.first_action.drafts import main

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engines


def test_it_measures_both_ways(tmp_path: Path) -> None:
    main(['--objects', '4', '--tasks', '2', '--json', str(tmp_path / 'figures.json')])
    rows = json.loads((tmp_path / 'figures.json').read_text())['figures']['rows']
    assert [row['batch'] for row in rows] == [1, 8]
    for row in rows:
        assert row['plans'] == 22
        assert row['same_ids'] == 1.0
        assert min(row['plans_per_cpu_s']) > 0
        before, after = row['steps_per_token']
        assert round((before - after) * row['tokens']) == row['came_true']
        assert 0 <= row['came_true'] <= row['drafts']
