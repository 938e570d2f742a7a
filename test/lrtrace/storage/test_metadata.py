"""``metadata.yaml`` against rosbag2's layout 9, written down here from what its reader asks for."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.traces.metadata_layout import LAYOUT, load, problems
from support.traces.strings import write_parts

from benchmarks.recorder.synthetic_trace import write_trace
from lrtrace.storage.reader import Trace
from lrtrace.storage.repair import repair_trace
from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    from pathlib import Path


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
            write_parts(folder, max_file_s=0.5)
        case 'repaired':
            write_trace(folder, close=False).flush()
            folder = repair_trace(folder).trace
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


@examples(60)
@given(cut=st.floats(0, 1))
def test_metadata_cut_anywhere_costs_no_message_and_nothing_is_overwritten(
    folder: Path, cut: float
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
