"""The Foxglove layout is one, and shows what there is.

It is held to what Foxglove documents of layouts and of its panels' message paths, to the
definitions of the messages, and to a recorded trace.
"""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from lrtrace.record.recorded_topics import is_recorded
from lrtrace.storage.reader import Trace

LAYOUT = json.loads(
    (Path(__file__).resolve().parents[3] / 'config' / 'foxglove_layout.json').read_text()
)
TYPES = {
    'robot_state': 'timely_llm_ros/msg/RobotState',
    'scheduler_state': 'timely_llm_ros/msg/SchedulerState',
    'task_events': 'timely_llm_ros/msg/TaskEvent',
    'diagnostics': 'diagnostic_msgs/msg/DiagnosticArray',
    'rosout': 'rcl_interfaces/msg/Log',
}
LAYOUT_KEYS = {'configById', 'globalVariables', 'userNodes', 'playbackConfig', 'layout'}
PANELS = {'Plot', 'StateTransitions', 'RawMessages', 'DiagnosticSummary', 'RosOut'}
TRACE = Path(__file__).resolve().parents[3] / 'datasets' / 'mock_fleet' / 'trace'
NUMBER = re.compile(r'(u?int\d+|float|double|byte|octet)')
PRIMITIVE = re.compile(rf'{NUMBER.pattern}|boolean|string')
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


def splits(layout: Any) -> list[dict[str, Any]]:
    if isinstance(layout, str):
        return []
    return [layout, *splits(layout['first']), *splits(layout['second'])]


def field_type(path: str) -> str:
    """Return the type of the field that a message path ends at."""
    match = PATH.fullmatch(path)
    assert match is not None, path
    package, _, name = TYPES[match[1].rsplit('/', 1)[1]].split('/')
    fields = getattr(import_module(f'{package}.msg'), name).get_fields_and_field_types()
    return str(fields[match[3]])


ALL_TOPICS = {
    match[1]
    for text in strings(LAYOUT['configById'])
    if (match := PATH.fullmatch(text)) is not None
}


def test_every_panel_has_its_place_and_its_content() -> None:
    assert set(LAYOUT) == LAYOUT_KEYS
    assert sorted(panels(LAYOUT['layout'])) == sorted(LAYOUT['configById'])
    assert {panel.split('!')[0] for panel in LAYOUT['configById']} == PANELS
    for split in splits(LAYOUT['layout']):
        assert set(split) - {'splitPercentage'} == {'first', 'second', 'direction'}
        assert split['direction'] in ('row', 'column')
        assert 0 < split.get('splitPercentage', 50) < 100


def test_plots_have_numbers_and_transitions_primitive_values() -> None:
    for panel, config in LAYOUT['configById'].items():
        kind = panel.split('!')[0]
        if kind in ('Plot', 'StateTransitions'):
            shape = NUMBER if kind == 'Plot' else PRIMITIVE
            for series in config['paths']:
                assert series['timestampMethod'] in ('receiveTime', 'headerStamp')
                assert shape.fullmatch(field_type(series['value'])), series
        elif kind in ('RawMessages', 'DiagnosticSummary'):
            assert config.get('topicPath', config.get('topicToRender')) in ALL_TOPICS


def test_a_recorded_trace_has_what_it_shows() -> None:
    types = Trace(TRACE).summary().types
    for topic in ALL_TOPICS:
        kind = TYPES[topic.rsplit('/', 1)[1]]
        # The trace's fleet has fewer robots than the layout has rows.
        assert types.get(topic, kind) == kind
    # It was made without the topics of the whole machine; that the recorder keeps those too is
    # tested with the recorder.
    own = {name for name, kind in TYPES.items() if kind.startswith('timely_llm_ros/')}
    assert {topic.rsplit('/', 1)[1] for topic in ALL_TOPICS & set(types)} == own


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
