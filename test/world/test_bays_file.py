"""Files of rooms that are not what they should be."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

pytest.importorskip('mujoco')

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.world import read_bays

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ('text', 'reason'),
    [
        ('', 'it names no robot'),
        ('{}', 'it names no robot'),
        ('["r"]', 'it names no robot'),
        ('{', 'line 1'),
        ('{"r": "cup"}', "r: 'cup': expected body and objects"),
        ('{"r": {"body": "cat", "objects": []}}', "r: body 'cat': expected one of drone, arm"),
        ('{"r": {"body": "arm", "objects": "cup"}}', "r: 'cup': expected a list of objects"),
        (
            '{"r": {"body": "drone", "objects": [7]}}',
            'r: 7: expected an object with name, kind and maybe',
        ),
        (
            '{"r": {"body": "drone", "objects": [{"name": "cup_1"}]}}',
            "r: {'name': 'cup_1'}: expected an object with name, kind",
        ),
        (
            '{"r": {"body": "drone", "objects": [{"name": "c", "kind": "cat", "x": 1}]}}',
            'expected an object with name, kind',
        ),
        (
            '{"r": {"body": "drone", "objects": [{"name": "c", "kind": "cat", "x_m": "1"}]}}',
            "r: x_m '1': expected a number",
        ),
        (
            '{"r": {"body": "drone", "objects": [{"name": "c", "kind": "cat", "x_m": true}]}}',
            'r: x_m True: expected a number',
        ),
        (
            '{"r": {"body": "drone", "objects": [{"name": "c", "kind": "cat", "x_m": NaN}]}}',
            'expected a finite number',
        ),
        (
            '{"r": {"body": "drone", "objects": [{"name": "c", "kind": "cat", "x_m": 1%s}]}}'
            % ('0' * 400),
            'too large',
        ),
        (
            '{"r": {"body": "drone", "objects": [{"name": 1, "kind": "cat"}]}}',
            'r: name 1: expected a text',
        ),
        (
            '{"r": {"body": "drone", "objects": [{"name": "c", "kind": "unicorn"}]}}',
            "r: kind 'unicorn': expected one of",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path: Path, text: str, reason: str) -> None:
    (path := tmp_path / 'bays.json').write_text(text, encoding='utf-8')
    with pytest.raises(ConfigurationError, match=rf'bays .*bays\.json.*{re.escape(reason)}'):
        read_bays(path)
