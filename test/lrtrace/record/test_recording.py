"""The recorder's writing thread: bounded whatever the disk does, nothing missing unsaid."""

from __future__ import annotations

import errno
import io
import random
import string
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from support.traces.metadata_layout import LAYOUT, load, problems
from support.traces.strings import STRING, string_bytes

from lrtrace.cli.main import main
from lrtrace.record.recorded_topics import is_recorded
from lrtrace.record.recorder_health import RecorderCounts, health, summary_line
from lrtrace.record.recording import MESSAGE_BYTES, Recording
from lrtrace.storage import writer as writer_module
from lrtrace.storage.metadata import TopicQos, write_metadata
from lrtrace.storage.reader import Trace
from lrtrace.storage.repair import repair_trace
from lrtrace.storage.writer import TraceWriter
from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    from pathlib import Path


FEEDBACK = 'timely_llm_ros/action/PlanTask_FeedbackMessage'


class SlowWriter(TraceWriter):
    """Writes only while it is allowed to: a disk that stands still."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.allowed = threading.Event()

    def write(self, topic: str, data: bytes, **stamps: int) -> None:  # type: ignore[override]
        self.allowed.wait()
        super().write(topic, data, **stamps)


def recording(writer: TraceWriter, room: int = 1 << 20) -> Recording:
    made = Recording(writer, max_backlog_bytes=room, flush_period_s=0.05)
    made.add_topic('/words', STRING, TopicQos())
    return made


def take(made: Recording, numbers: range) -> None:
    for number in numbers:
        made.take('/words', string_bytes(f'{number:04}'), log_ns=number, publish_ns=number)


def test_all_is_written_and_what_is_noted_is_kept(tmp_path: Path) -> None:
    made = recording(TraceWriter(tmp_path / 'run'))
    take(made, range(500))
    made.note({'policy': 'edf'})
    made.close()
    trace = Trace(tmp_path / 'run')
    assert [int(message.value.data) for message in trace.messages()] == [*range(500)]
    assert trace.custom_data == {'policy': 'edf', 'dropped_messages': '0'}
    counts = made.counts(Counter())
    assert (counts.messages, made.dropped_count, counts.backlog_bytes) == (500, 0, 0)


def test_a_disk_that_stands_still_costs_bounded_memory_and_every_drop_is_counted(
    tmp_path: Path,
) -> None:
    writer = SlowWriter(tmp_path / 'run')
    size = len(string_bytes('0000')) + MESSAGE_BYTES
    made = recording(writer, room=100 * size)
    take(made, range(1000))
    assert made.backlog_bytes <= 100 * size
    assert made.dropped == {'/words': 900}
    writer.allowed.set()
    made.close()
    trace = Trace(tmp_path / 'run')
    # The oldest were there first; the bytes of what is there are sound.
    assert [int(message.value.data) for message in trace.messages()] == [*range(100)]
    assert trace.custom_data['dropped_messages'] == '900'


def test_a_full_disk_is_said_and_what_was_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = TraceWriter(tmp_path / 'run')
    made = recording(writer)
    take(made, range(50))

    def fail(*_: object) -> None:
        raise OSError(28, 'No space left on device')

    while Trace(tmp_path / 'run').summary().counts.total() < 50:
        pass
    monkeypatch.setattr(writer._file, '_write', fail)
    take(made, range(50, 60))
    made.close()
    assert made.failure.endswith('No space left on device')
    assert len([*Trace(tmp_path / 'run').messages()]) == 50
    take(made, range(5))
    assert made.dropped_count == 5


class FullDisk(io.FileIO):
    """A file on a disk with little room, which a write fills before it fails."""

    room = 500_000

    def write(self, data: Any) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, 'No space left on device')
        taken = super().write(data[: self.room])
        self.room -= taken
        return taken


def test_a_full_disk_is_told_from_a_kill_and_what_was_written_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    disks: list[FullDisk] = []

    def opened(writer: TraceWriter, number: int) -> FullDisk:
        disks.append(FullDisk(writer.folder / f'run_{number}.mcap', 'x'))
        return disks[-1]

    def no_room(folder: Path, information: Any) -> None:
        if disks and not disks[-1].room:
            raise OSError(errno.ENOSPC, 'No space left on device')
        write_metadata(folder, information)

    monkeypatch.setattr(TraceWriter, '_open', opened)
    monkeypatch.setattr(writer_module, 'write_metadata', no_room)
    made = recording(TraceWriter(tmp_path / 'run', custom_data={'seed': '1'}))
    rng = random.Random(1)
    number = 0
    while not made.failure:
        text = ''.join(rng.choices(string.ascii_letters, k=40))
        made.take('/words', string_bytes(text), log_ns=number, publish_ns=number)
        number += 1
    made.close()
    trace = Trace(tmp_path / 'run')
    written = len([*trace.messages()])
    assert 0 < written < number
    assert made.counts(Counter()).messages == written
    assert 'the disk was full' in trace.damage
    assert 'killed' not in trace.damage
    assert main(['info', str(tmp_path / 'run')]) == 0
    assert 'closed     no, the disk was full\n' in capsys.readouterr().out
    assert trace.custom_data['seed'] == '1'
    # It is a bag to others still, and can be repaired where there is room.
    assert problems(load(tmp_path / 'run'), LAYOUT) == []
    monkeypatch.undo()
    done = repair_trace(tmp_path / 'run')
    assert (done.messages, Trace(done.trace).summary().damage) == (written, '')


def test_a_recorder_that_was_killed_on_a_disk_with_room_is_said_to_be_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = TraceWriter(tmp_path / 'run')
    writer.add_topic('/words', STRING)
    writer.flush()
    assert main(['info', str(tmp_path / 'run')]) == 0
    assert (
        'closed     no, it is still recorded, or its recorder was killed' in capsys.readouterr().out
    )


def test_an_unknown_type_is_refused_at_once(tmp_path: Path) -> None:
    made = recording(TraceWriter(tmp_path / 'run'))
    with pytest.raises(TraceError, match='nobody/msg/Knows'):
        made.add_topic('/x', 'nobody/msg/Knows', TopicQos())
    made.close()


def test_what_is_missing_is_a_warning_that_names_the_topics() -> None:
    dropped = Counter({'/a': 5, '/b': 1, '/c': 1, '/d': 1})
    counts = RecorderCounts('run', 10, 4, 2, 0, dropped, Counter({'/a': 2}), '')
    text = 'run: 10 messages of 4 topics in 2 files, 8 dropped for want of room (/a 5, '
    assert summary_line(counts).startswith(text)
    assert '2 lost by the middleware (/a 2)' in summary_line(counts)
    level, message, values = health(counts, active=True)
    assert level == 1
    assert 'and 1 other topics' in message
    assert (values['dropped_messages'], values['lost_messages']) == ('8', '2')


@pytest.mark.parametrize(
    ('topic', 'kind', 'expected'),
    [
        ('/site/drone_1/robot_state', 'timely_llm_ros/msg/RobotState', True),
        ('/other/drone_1/robot_state', 'timely_llm_ros/msg/RobotState', False),
        ('/site/plan_task/_action/feedback', FEEDBACK, True),
        ('/site/plan_task/_action/status', 'action_msgs/msg/GoalStatusArray', True),
        ('/site/navigate/_action/status', 'action_msgs/msg/GoalStatusArray', False),
        ('/rosout', 'rcl_interfaces/msg/Log', True),
        ('/site/diagnostics', 'diagnostic_msgs/msg/DiagnosticArray', True),
        ('/site/skill_catalogue', 'std_msgs/msg/String', True),
        ('/site/chatter', 'std_msgs/msg/String', False),
        ('/site/arm_1/joint_states', 'sensor_msgs/msg/JointState', True),
    ],
)  # fmt: skip
def test_which_topics_are_recorded(topic: str, kind: str, expected: bool) -> None:
    assert is_recorded(topic, kind, '/site/', ['/site/arm_?/joint_*']) is expected
