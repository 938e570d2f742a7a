"""The Foxglove layout shows what there is: every path leads to a field of a message we record."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from lrtrace.recorder_options import is_recorded

LAYOUT = json.loads(
    (Path(__file__).resolve().parents[2] / 'config' / 'foxglove_layout.json').read_text()
)
TYPES = {
    'robot_state': 'timely_llm_ros/msg/RobotState',
    'scheduler_state': 'timely_llm_ros/msg/SchedulerState',
    'task_events': 'timely_llm_ros/msg/TaskEvent',
    'diagnostics': 'diagnostic_msgs/msg/DiagnosticArray',
    'rosout': 'rcl_interfaces/msg/Log',
}
PATH = re.compile(r'(/[a-z0-9_/]+)(?:\{([a-z_]+)==\d+\})?(?:\.([a-z_]+))?')


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in strings(one)]
    if isinstance(value, list):
        return [text for one in value for text in strings(one)]
    return [value] if isinstance(value, str) else []


def panels(layout: Any) -> list[str]:
    if isinstance(layout, str):
        return [layout]
    return [*panels(layout['first']), *panels(layout['second'])]


def test_every_panel_has_its_place_and_its_content() -> None:
    assert sorted(panels(LAYOUT['layout'])) == sorted(LAYOUT['configById'])


def test_every_path_is_of_a_topic_that_is_recorded_and_a_field_that_it_has() -> None:
    paths = [text for text in strings(LAYOUT['configById']) if text.startswith('/')]
    assert len(paths) > 15
    for path in paths:
        match = PATH.fullmatch(path)
        assert match is not None, path
        kind = TYPES[match[1].rsplit('/', 1)[1]]
        assert is_recorded(match[1], kind, '/', ())
        package, _, name = kind.split('/')
        fields = getattr(import_module(f'{package}.msg'), name).get_fields_and_field_types()
        assert {match[2], match[3]} - {None} <= set(fields), path
