"""Repairs: everything sound is saved, the original is never lost, nothing is overwritten."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from mcap.reader import make_reader
from rosbags.highlevel import AnyReader
from support.examples import examples

from benchmarks.recorder.synthetic_trace import write_trace
from lrtrace.cli.main import main
from lrtrace.storage.mcap_file import MAGIC, McapFile
from lrtrace.storage.metadata import TopicQos
from lrtrace.storage.reader import Trace
from lrtrace.storage.repair import repair_trace
from lrtrace.storage.writer import TraceWriter
from lrtrace.timeline import read_run
from timely_llm_ros.errors import ConfigurationError, TraceError

if TYPE_CHECKING:
    from pathlib import Path


def raw(path: Path) -> list[tuple[str, str, int, int, bytes]]:
    return [
        (channel.topic, schema.name, message.log_time, message.publish_time, message.data)
        for schema, channel, message in Trace(path).raw()
    ]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob('*'))
        if path.is_file()
    }


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    write_trace(tmp_path / 'run', close=False).flush()
    return tmp_path / 'run'


def test_a_killed_trace_becomes_whole_beside_the_original(killed: Path) -> None:
    before = contents(killed)
    done = repair_trace(killed)
    assert done.trace == killed.with_name('run_repaired')
    assert 'recorder was killed' in done.damage
    assert contents(killed) == before
    assert raw(done.trace) == raw(killed)
    again = Trace(done.trace)
    assert again.summary().damage == ''
    assert not again.cut_off
    assert again.custom_data == {'seed': '1', 'time_scale': '1.0'}
    assert read_run(again).tasks == read_run(Trace(killed)).tasks
    # Whole for others too: the index has every message.
    with AnyReader([done.trace]) as reader:
        assert reader.message_count == done.messages == len(raw(killed))
    with (done.trace / 'run_repaired_0.mcap').open('rb') as stream:
        summary = make_reader(stream, validate_crcs=True).get_summary()
        assert summary is not None
        assert summary.statistics is not None
        assert summary.statistics.message_count == done.messages


def test_metadata_is_that_of_the_original(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / 'run')
    writer.add_topic('/words', 'std_msgs/msg/String', TopicQos('best_effort', depth=3))
    writer.write('/words', b'\0\1\0\0\2\0\0\0a\0', log_ns=5, publish_ns=4)
    writer.flush()
    repaired = repair_trace(tmp_path / 'run').trace
    writer.close()

    def information(folder: Path) -> dict[str, Any]:
        loaded = yaml.safe_load((folder / 'metadata.yaml').read_text())
        found: dict[str, Any] = loaded['rosbag2_bagfile_information']
        return found

    whole, mended = information(tmp_path / 'run'), information(repaired)
    for name in ('topics_with_message_count', 'message_count', 'starting_time', 'duration'):
        assert mended[name] == whole[name]


def test_in_place_the_original_is_kept(killed: Path) -> None:
    before = contents(killed)
    done = repair_trace(killed, in_place=True)
    assert done.trace == killed
    assert contents(killed.with_name('run.damaged')) == before
    assert Trace(killed).summary().damage == ''
    assert sorted(path.name for path in killed.parent.iterdir()) == ['run', 'run.damaged']
    assert repair_trace(killed, in_place=True).damage == ''
    # A second original would have no place: nothing happens.
    file = killed / 'run_0.mcap'
    file.write_bytes(file.read_bytes()[:-30])
    second = contents(killed)
    with pytest.raises(TraceError, match='no earlier repair'):
        repair_trace(killed, in_place=True)
    assert contents(killed) == second
    assert contents(killed.with_name('run.damaged')) == before


def test_missing_and_cut_metadata_are_made_again(tmp_path: Path) -> None:
    write_trace(tmp_path / 'run')
    metadata = tmp_path / 'run' / 'metadata.yaml'
    text = metadata.read_text()
    for number, (left, said) in enumerate(
        ((None, 'missing'), (text[: len(text) // 4], 'cannot be read'), ('{', 'cannot be read'))
    ):
        if left is None:
            metadata.unlink()
        else:
            metadata.write_text(left)
        done = repair_trace(tmp_path / 'run', output=tmp_path / f'out_{number}')
        assert said in done.damage or 'metadata.yaml says' in done.damage
        assert raw(done.trace) == raw(tmp_path / 'run')


def test_a_whole_trace_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_trace(tmp_path / 'run')
    assert main(['repair', str(tmp_path / 'run')]) == 0
    assert 'nothing was written' in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ['run']


def test_a_single_file_is_repaired_into_a_folder(killed: Path) -> None:
    file = killed / 'run_0.mcap'
    with pytest.raises(ConfigurationError, match='expected a trace folder'):
        repair_trace(file, in_place=True)
    done = repair_trace(file)
    assert done.trace == killed / 'run_0_repaired'
    assert raw(done.trace) == raw(file)


@given(cut=st.floats(0, 1))
@examples(40)
def test_a_file_cut_anywhere_gives_all_whole_chunks_or_an_error(
    cut: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp('cut')
    writer = TraceWriter(folder / 'run')
    writer.add_topic('/words', 'std_msgs/msg/String')
    for number in range(30):
        writer.write('/words', b'\0\1\0\0\2\0\0\0a\0', log_ns=1 + number)
        if number % 7 == 6:
            writer.flush()
    writer.close()
    file = folder / 'run' / 'run_0.mcap'
    file.write_bytes(file.read_bytes()[: int(cut * file.stat().st_size)])
    before = contents(folder)
    try:
        done = repair_trace(folder / 'run', output=folder / 'out')
    except TraceError:
        assert contents(folder) == before
        return
    assert done.messages in (7, 14, 21, 28, 30)
    if done.damage:
        assert raw(folder / 'out') == raw(folder / 'run')
        assert Trace(folder / 'out').summary().damage == ''


def test_what_cannot_be_repaired_is_refused_and_nothing_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / 'empty.mcap').touch()
    (tmp_path / 'foreign.mcap').write_bytes(b'#ROSBAG V2.0\n')
    (tmp_path / 'short.mcap').write_bytes(MAGIC)
    before = contents(tmp_path)
    for name, said in (
        ('empty.mcap', 'an empty file'),
        ('foreign.mcap', 'ROSBAG'),
        ('short.mcap', 'no whole message'),
        ('none', 'expected a rosbag2 folder'),
    ):
        assert main(['repair', str(tmp_path / name)]) == 1
        assert said in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_messages_of_other_systems_are_refused(tmp_path: Path) -> None:
    file = McapFile((tmp_path / 'run.mcap').open('wb'), library='test')
    channel = file.add_channel('/words', file.add_schema('Words', b'string data').id, {})
    file._channels[0].message_encoding = 'protobuf'
    file._chunk = bytearray(bytes(file._chunk).replace(b'\3\0\0\0cdr', b'\3\0\0\0xml'))
    file.add_message(channel, b'x', log_ns=1, publish_ns=1)
    file.flush()
    with pytest.raises(TraceError, match="encoding 'xml': expected cdr"):
        repair_trace(tmp_path / 'run.mcap')
    assert [path.name for path in tmp_path.iterdir()] == ['run.mcap']


def test_an_existing_folder_is_not_touched(killed: Path) -> None:
    target = killed.with_name('run_repaired')
    target.mkdir()
    (target / 'mine').write_text('mine')
    with pytest.raises(TraceError, match='cannot be made'):
        repair_trace(killed)
    assert contents(target) == {'mine': b'mine'}


def test_a_full_disk_leaves_nothing_behind(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, 'No space left on device')

    before = contents(killed.parent)
    for method in ('finish', 'flush', 'add_metadata'):
        with monkeypatch.context() as patched:
            patched.setattr(McapFile, method, full)
            for in_place in (False, True):
                with pytest.raises(TraceError, match='No space left'):
                    repair_trace(killed, in_place=in_place)
                assert contents(killed.parent) == before
                assert [path.name for path in killed.parent.iterdir()] == ['run']
