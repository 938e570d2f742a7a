"""``metadata.yaml`` against rosbag2's layout 9, written down here from what its reader asks for."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import write_trace
from test_trace_files import _parts

from lrtrace.reader import Trace
from lrtrace.repair import repair
from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    from pathlib import Path

TIME = {'sec': int, 'nsec': int}
MESSAGES = {
    'starting_time': {'nanoseconds_since_epoch': int},
    'duration': {'nanoseconds': int},
    'message_count': int,
}
QOS = {
    'history': {'keep_last', 'keep_all', 'system_default', 'unknown'},
    'depth': int,
    'reliability': {'reliable', 'best_effort', 'best_available', 'system_default', 'unknown'},
    'durability': {'volatile', 'transient_local', 'best_available', 'system_default', 'unknown'},
    'deadline': TIME,
    'lifespan': TIME,
    'liveliness': {'automatic', 'manual_by_topic', 'best_available', 'system_default', 'unknown'},
    'liveliness_lease_duration': TIME,
    'avoid_ros_namespace_conventions': bool,
}
TOPIC = {
    'topic_metadata': {
        'name': str,
        'type': str,
        'serialization_format': {'cdr'},
        'offered_qos_profiles': [QOS],
        'type_description_hash': str,
    },
    'message_count': int,
}
LAYOUT: dict[str, Any] = {
    'rosbag2_bagfile_information': {
        'version': {9},
        'storage_identifier': {'mcap'},
        **MESSAGES,
        'topics_with_message_count': [TOPIC],
        'compression_format': str,
        'compression_mode': str,
        'relative_file_paths': [str],
        'files': [{'path': str, **MESSAGES}],
        # Names and values of any kind of text; nothing where there are none.
        'custom_data': object,
        'ros_distro': str,
    }
}


def problems(value: Any, layout: Any, place: str = '') -> list[str]:
    """Return what in a value does not fit a layout, each with its place."""
    if isinstance(layout, dict):
        if not isinstance(value, dict):
            return [f'{place}: {value!r}: expected a mapping']
        found = [f'{place}.{name}: missing' for name in layout if name not in value]
        found += [f'{place}.{name}: unknown' for name in value if name not in layout]
        for name, part in layout.items():
            if name in value:
                found += problems(value[name], part, f'{place}.{name}')
        return found
    if isinstance(layout, list):
        if not isinstance(value, list):
            return [f'{place}: {value!r}: expected a list']
        return [
            one
            for index, item in enumerate(value)
            for one in problems(item, layout[0], f'{place}[{index}]')
        ]
    if isinstance(layout, set):
        return [] if value in layout else [f'{place}: {value!r}: expected one of {layout}']
    # True and False are whole numbers to Python, not to YAML.
    fits = isinstance(value, layout) and (layout is not int or not isinstance(value, bool))
    return [] if fits else [f'{place}: {value!r}: expected {layout.__name__}']


def load(folder: Path) -> Any:
    return yaml.safe_load((folder / 'metadata.yaml').read_text())


@pytest.mark.parametrize('state', ['whole', 'open', 'split', 'repaired'])
def test_traces_have_the_layout(tmp_path: Path, state: str) -> None:
    folder = tmp_path / 'run'
    match state:
        case 'whole':
            write_trace(folder)
        case 'open':
            # While it is written, and after a kill.
            write_trace(folder, close=False).flush()
        case 'split':
            _parts(folder, max_file_s=0.5)
        case 'repaired':
            write_trace(folder, close=False).flush()
            folder = repair(folder).trace
    loaded = load(folder)
    assert problems(loaded, LAYOUT) == []
    information = loaded['rosbag2_bagfile_information']
    custom = information['custom_data'] or {}
    assert all(isinstance(text, str) for pair in custom.items() for text in pair)
    names = [path.name for path in folder.glob('*.mcap')]
    assert sorted(information['relative_file_paths']) == sorted(names)
    assert [file['path'] for file in information['files']] == information['relative_file_paths']
    assert (
        sum(file['message_count'] for file in information['files'])
        == (information['message_count'])
    )
    for topic in information['topics_with_message_count']:
        assert topic['topic_metadata']['type_description_hash'].startswith('RIHS01_')
    if state != 'open':
        assert (
            sum(t['message_count'] for t in information['topics_with_message_count'])
            == (information['message_count'])
        )


def test_the_check_finds_what_is_wrong(tmp_path: Path) -> None:
    write_trace(tmp_path / 'run')
    loaded = load(tmp_path / 'run')
    information = loaded['rosbag2_bagfile_information']
    information['version'] = 8
    del information['ros_distro']
    information['topics_with_message_count'][0]['message_count'] = 'many'
    assert len(problems(loaded, LAYOUT)) == 3


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp('layout') / 'run'
    write_trace(made)
    return made


@settings(max_examples=60, deadline=None)
@given(cut=st.floats(0, 1))
def test_metadata_cut_anywhere_costs_no_message_and_nothing_is_overwritten(
    folder: Path, cut: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = folder / 'metadata.yaml'
    whole = path.read_bytes()
    bag = (folder / 'run_0.mcap').read_bytes()
    try:
        path.write_bytes(whole[: int(cut * len(whole))])
        cut_bytes = path.read_bytes()
        # What is left of it may name another kind of storage; anything else is read.
        with contextlib.suppress(TraceError):
            assert Trace(folder).summary().counts.total() == len([*Trace(folder).raw()]) > 0
        assert (path.read_bytes(), (folder / 'run_0.mcap').read_bytes()) == (cut_bytes, bag)
    finally:
        path.write_bytes(whole)
