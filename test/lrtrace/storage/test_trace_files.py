"""Traces: what is written is read again, by us and by others, whatever happened to the file."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from mcap.reader import make_reader
from rclpy.serialization import serialize_message
from rosbags.highlevel import AnyReader
from support.examples import examples
from support.traces.strings import STRING, string_bytes, write_parts
from timely_llm_ros.action import PlanTask

from benchmarks.recorder.synthetic_trace import messages, workload, write_trace
from lrtrace.storage.definitions import find_definition
from lrtrace.storage.mcap_file import CHUNK_BYTES, MAGIC
from lrtrace.storage.metadata import TopicQos
from lrtrace.storage.reader import Trace
from lrtrace.storage.writer import TraceWriter
from timely_llm_ros.errors import TraceError


def write_strings(folder: Path, texts: list[str], *, flush_every: int = 0) -> TraceWriter:
    writer = TraceWriter(folder)
    writer.add_topic('/words', STRING)
    for number, text in enumerate(texts):
        writer.write('/words', string_bytes(text), log_ns=10**18 + number, publish_ns=10**18)
        if flush_every and number % flush_every == flush_every - 1:
            writer.flush()
    return writer


def read_strings(path: Path) -> list[str]:
    return [message.value.data for message in Trace(path).messages()]


def test_everything_written_is_read_in_order(tmp_path: Path) -> None:
    write_trace(tmp_path / 'run')
    expected = messages(workload(1, 4), whole=False)
    trace = Trace(tmp_path / 'run')
    found = list(trace.messages())
    assert trace.damage == ''
    assert [message.topic for message in found] == [topic for _, topic, _ in expected]
    for message, (_, _, sent) in zip(found, expected, strict=True):
        assert message.value.header.stamp.nanosec == sent.header.stamp.nanosec
    assert trace.custom_data == {'seed': '1', 'time_scale': '1.0'}


def test_other_readers_read_it(tmp_path: Path) -> None:
    write_trace(tmp_path / 'run')
    count = len(messages(workload(1, 4), whole=False))
    with AnyReader([tmp_path / 'run']) as reader:
        assert reader.message_count == count
        events: list[Any] = [
            reader.deserialize(data, connection.msgtype)
            for connection, _, data in reader.messages()
            if connection.topic == '/task_events'
        ]
    assert {event.robot for event in events} >= {'drone_1', 'arm_1'}
    with (tmp_path / 'run' / 'run_0.mcap').open('rb') as stream:
        reader_of_mcap = make_reader(stream, validate_crcs=True)
        summary = reader_of_mcap.get_summary()
        assert summary is not None
        assert summary.statistics is not None
        assert summary.statistics.message_count == count
        assert sum(1 for _ in reader_of_mcap.iter_messages(topics=['/task_events'])) == len(events)


def test_metadata_has_the_layout_of_rosbag2(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / 'run', custom_data={'seed': '5'})
    writer.add_topic('/words', STRING, TopicQos('best_effort', 'transient_local', 3))
    writer.write('/words', string_bytes('a'), log_ns=1_000)
    writer.write('/words', string_bytes('b'), log_ns=3_000)
    writer.close()
    loaded = yaml.safe_load((tmp_path / 'run' / 'metadata.yaml').read_text())
    information = loaded['rosbag2_bagfile_information']
    assert information['version'] == 9
    assert information['storage_identifier'] == 'mcap'
    assert information['relative_file_paths'] == ['run_0.mcap']
    assert information['starting_time'] == {'nanoseconds_since_epoch': 1_000}
    assert information['duration'] == {'nanoseconds': 2_000}
    assert information['custom_data'] == {'seed': '5'}
    (topic,) = information['topics_with_message_count']
    assert topic['message_count'] == 2
    described = topic['topic_metadata']
    assert (described['name'], described['type']) == ('/words', STRING)
    assert described['type_description_hash'].startswith('RIHS01_')
    (qos,) = described['offered_qos_profiles']
    assert (qos['reliability'], qos['durability'], qos['depth']) == (
        'best_effort',
        'transient_local',
        3,
    )


def test_a_killed_recorder_loses_only_what_was_not_flushed(tmp_path: Path) -> None:
    writer = write_strings(tmp_path / 'run', [str(n) for n in range(25)], flush_every=10)
    trace = Trace(tmp_path / 'run')
    assert [message.value.data for message in trace.messages()] == [str(n) for n in range(20)]
    assert 'footer' in trace.damage
    writer.close()
    assert read_strings(tmp_path / 'run') == [str(n) for n in range(25)]
    assert Trace(tmp_path / 'run').summary().damage == ''


def test_a_full_chunk_is_written_by_itself(tmp_path: Path) -> None:
    write_strings(tmp_path / 'run', ['x' * 1000] * 600)
    assert 600 - len(read_strings(tmp_path / 'run')) < CHUNK_BYTES / 1000


def test_a_trace_without_metadata_is_read(tmp_path: Path) -> None:
    write_trace(tmp_path / 'run')
    (tmp_path / 'run' / 'metadata.yaml').unlink()
    trace = Trace(tmp_path / 'run')
    assert trace.custom_data['seed'] == '1'
    assert trace.summary().counts.total() == len(messages(workload(1, 4), whole=False))
    assert Trace(tmp_path / 'run' / 'run_0.mcap').summary().counts['/task_events'] > 0


@pytest.fixture(scope='module')
def sound_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp('sound') / 'run'
    write_strings(folder, [str(n) for n in range(60)], flush_every=7).close()
    return (folder / 'run_0.mcap').read_bytes()


@given(cut=st.floats(0, 1))
@examples(150)
def test_a_file_cut_anywhere_gives_a_prefix(
    cut: float, sound_bytes: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / 'cut.mcap'
    path.write_bytes(sound_bytes[: int(cut * len(sound_bytes))])
    if path.stat().st_size < len(MAGIC):
        with pytest.raises(TraceError, match='expected an MCAP file'):
            Trace(path)
        return
    found = read_strings(path)
    assert found == [str(n) for n in range(len(found))]
    assert len(found) % 7 == 0 or len(found) == 60


@given(seed=st.integers(0, 10**6))
@examples(150)
def test_damaged_bytes_never_crash_and_never_invent(
    seed: int, sound_bytes: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = random.Random(seed)
    data = bytearray(sound_bytes)
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(MAGIC), len(data))] = rng.randrange(256)
    path = tmp_path_factory.getbasetemp() / 'damaged.mcap'
    path.write_bytes(data)
    try:
        found = [int(text) for text in read_strings(path)]
    except TraceError:
        return
    assert found == sorted(set(found))
    assert all(0 <= number < 60 for number in found)


def test_a_bad_chunk_in_the_middle_is_left_out(tmp_path: Path) -> None:
    write_strings(tmp_path / 'run', [str(n) for n in range(60)], flush_every=20).close()
    path = tmp_path / 'run' / 'run_0.mcap'
    data = bytearray(path.read_bytes())
    # The second chunk's data begins after its opcode, length, times, sizes and the word "zstd".
    places = [n for n in range(len(data)) if data[n : n + 4] == b'\x28\xb5\x2f\xfd']
    data[places[1] + 12] ^= 0xFF
    path.write_bytes(data)
    trace = Trace(tmp_path / 'run')
    found = [int(message.value.data) for message in trace.messages()]
    assert found == [*range(20), *range(40, 60)]
    assert 'chunk is left out' in trace.damage


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match='expected a rosbag2 folder'):
        Trace(tmp_path / 'nothing')
    with pytest.raises(TraceError, match=r'at least one \.mcap file'):
        Trace(tmp_path)
    (tmp_path / 'foreign.mcap').write_bytes(b'#ROSBAG V2.0\n')
    with pytest.raises(TraceError, match='ROSBAG'):
        Trace(tmp_path / 'foreign.mcap')
    (tmp_path / 'metadata.yaml').write_text(
        'rosbag2_bagfile_information: {storage_identifier: sqlite3}'
    )
    with pytest.raises(TraceError, match='sqlite3'):
        Trace(tmp_path)


def test_metadata_cannot_point_outside_its_folder(tmp_path: Path) -> None:
    write_trace(tmp_path / 'secret')
    write_trace(tmp_path / 'run')
    metadata = tmp_path / 'run' / 'metadata.yaml'
    metadata.write_text(metadata.read_text().replace('run_0.mcap', '../secret/secret_0.mcap'))
    assert [file.parent for file in Trace(tmp_path / 'run').files] == [tmp_path / 'run']


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    write_trace(tmp_path / 'run')
    before = (tmp_path / 'run' / 'run_0.mcap').read_bytes()
    expected = 'cannot be made: File exists: expected a folder that is not there yet'
    with pytest.raises(TraceError, match=expected):
        TraceWriter(tmp_path / 'run')
    assert (tmp_path / 'run' / 'run_0.mcap').read_bytes() == before


def test_a_disk_that_is_full_at_the_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path('/dev/full').open('r+b', buffering=0) as full:
        monkeypatch.setattr(TraceWriter, '_open', lambda *_: full)
        with pytest.raises(TraceError, match='cannot be made: No space left on device'):
            TraceWriter(tmp_path / 'run')
    assert not (tmp_path / 'run').exists()


def test_definitions_are_complete() -> None:
    definition = find_definition('timely_llm_ros/msg/TaskEvent')
    parts = definition.text.split('=' * 80 + '\n')
    named = {part.split('\n')[0] for part in parts[1:]}
    assert named == {
        'MSG: std_msgs/Header',
        'MSG: builtin_interfaces/Time',
        'MSG: builtin_interfaces/Duration',
        'MSG: unique_identifier_msgs/UUID',
        'MSG: timely_llm_ros/SceneObject',
        'MSG: timely_llm_ros/TimeUtility',
        'MSG: geometry_msgs/Point',
    }
    assert definition.type_hash.startswith('RIHS01_')


@pytest.mark.parametrize('name', ['TaskEvent', 'a/b/C', 'no_package/msg/Thing', 'std_msgs/msg/No'])
def test_unknown_types_are_refused(name: str) -> None:
    with pytest.raises(TraceError, match=name):
        find_definition(name)


@pytest.mark.parametrize('limits', [{'max_file_bytes': 700}, {'max_file_s': 0.5}])
def test_a_long_trace_is_split_into_whole_files(tmp_path: Path, limits: dict[str, Any]) -> None:
    texts = write_parts(tmp_path / 'run', **limits)
    trace = Trace(tmp_path / 'run')
    assert [file.name for file in trace.files] == [f'run_{n}.mcap' for n in range(len(trace.files))]
    assert len(trace.files) >= 7
    assert read_strings(tmp_path / 'run') == texts
    assert (trace.damage, trace.summary().counts) == ('', {'/words': 31, '/late': 9})
    loaded = yaml.safe_load((tmp_path / 'run' / 'metadata.yaml').read_text())
    information = loaded['rosbag2_bagfile_information']
    assert information['relative_file_paths'] == [file.name for file in trace.files]
    assert sum(file['message_count'] for file in information['files']) == 40
    assert information['message_count'] == 40
    with AnyReader([tmp_path / 'run']) as reader:
        found: list[Any] = [reader.deserialize(d, c.msgtype) for c, _, d in reader.messages()]
    assert [message.data for message in found] == texts
    for file in trace.files:
        # Each is a whole MCAP file with an index, and a trace by itself.
        with file.open('rb') as stream:
            summary = make_reader(stream, validate_crcs=True).get_summary()
        assert summary is not None
        assert summary.statistics is not None
        assert summary.statistics.message_count == Trace(file).summary().counts.total() > 0
        assert Trace(file).custom_data == {'seed': '1'}


def test_a_kill_while_the_next_file_is_begun_loses_no_file(tmp_path: Path) -> None:
    texts = write_parts(tmp_path / 'run', max_file_s=0.5, close=False)
    names = sorted((tmp_path / 'run').glob('*.mcap'), key=lambda path: path.stat().st_mtime)
    (tmp_path / 'run' / f'run_{len(names)}.mcap').write_bytes(b'')
    trace = Trace(tmp_path / 'run')
    assert [message.value.data for message in trace.messages()] == texts
    assert 'empty, it is still recorded, or its recorder was killed' in trace.damage
    assert trace.cut_off


def test_what_is_noted_later_is_kept(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / 'run', custom_data={'seed': '1'})
    writer.note({'policy': 'edf'})
    writer.close()
    assert Trace(tmp_path / 'run').custom_data == {'seed': '1', 'policy': 'edf'}
    (tmp_path / 'run' / 'metadata.yaml').unlink()
    assert Trace(tmp_path / 'run').custom_data == {'seed': '1', 'policy': 'edf'}


def test_feedback_of_actions_has_a_definition_and_is_read_by_others(tmp_path: Path) -> None:
    name = 'timely_llm_ros/action/PlanTask_FeedbackMessage'
    definition = find_definition(name)
    assert 'MSG: timely_llm_ros/action/PlanTask_Feedback' in definition.text
    assert 'MSG: unique_identifier_msgs/UUID' in definition.text
    assert definition.type_hash.startswith('RIHS01_')
    writer = TraceWriter(tmp_path / 'run')
    writer.add_topic('/plan_task/_action/feedback', name)
    message = PlanTask.Impl.FeedbackMessage()
    message.feedback.call, message.feedback.segments = 'scan', 3
    writer.write('/plan_task/_action/feedback', serialize_message(message), log_ns=1)
    writer.close()
    (found,) = Trace(tmp_path / 'run').messages()
    assert (found.message_type, found.value.feedback.call) == (name, 'scan')
    with AnyReader([tmp_path / 'run']) as reader:
        ((connection, _, data),) = reader.messages()
        feedback: Any = reader.deserialize(data, connection.msgtype)
    assert feedback.feedback.segments == 3
