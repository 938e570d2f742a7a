"""The recorder over real DDS: all is recorded, and a kill -9 loses only the end."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING

import pytest
from support.loopback import free_port
from support.ros.programs import LIMIT_S, ROOT, wait_for
from support.ros.recording import Recording
from support.ros.scraping import Watch
from timely_llm_ros.action import PlanTask
from timely_llm_ros.msg import RobotState, SchedulerState, TaskEvent

from lrtrace.storage.reader import Trace
from timely_llm_ros.ros.topics import STATE_QOS

if TYPE_CHECKING:
    from pathlib import Path

    from support.ros.ros_client import Client

pytestmark = pytest.mark.distro


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_everything_is_recorded(client: Client, tmp_path: Path, number: signal.Signals) -> None:
    recording = Recording(client, tmp_path, custom_data=['seed=3', 'note=a=b'])
    recording.publish(range(30))
    topics = ('task_events', 'drone_1/skill_segments', 'drone_2/robot_state')
    wait_for(lambda: all(recording.recorded(topic) == 30 for topic in topics), 'all of them')
    assert recording.end(number) == 0, recording.log
    trace = Trace(recording.trace)
    summary = trace.summary()
    assert summary.damage == ''
    for topic in topics:
        assert summary.counts[f'{recording.namespace}/{topic}'] == 30
    texts = [m.value.text for m in trace.messages(types=('timely_llm_ros/msg/TaskEvent',))]
    assert texts == [str(n) for n in range(30)]
    noted = trace.custom_data
    assert (noted['seed'], noted['note']) == ('3', 'a=b')
    assert (noted['dropped_messages'], noted['lost_messages']) == ('0', '0')
    assert uuid.UUID(noted['run_id'])
    assert '/rosout' in summary.types


def test_what_the_scheduler_runs_is_noted_and_files_are_split(
    client: Client, tmp_path: Path
) -> None:
    recording = Recording(client, tmp_path, max_file_s=0.05, flush_period_s=0.05)
    state = SchedulerState(engine='torch', model='m', mode='segmented', policy='edf')
    states = client.do(
        client.node.create_publisher,
        SchedulerState,
        f'{recording.namespace}/scheduler_state',
        STATE_QOS,
    )
    states.publish(state)
    wait_for(lambda: recording.recorded('scheduler_state'), 'state')

    def publish_until_split() -> bool:
        recording.publish(range(1))
        return len([*recording.trace.glob('*.mcap')]) > 2

    wait_for(publish_until_split, 'the third file')
    client.do(client.node.destroy_publisher, states)
    assert recording.end(signal.SIGINT) == 0, recording.log
    trace = Trace(recording.trace)
    assert trace.summary().damage == ''
    assert trace.custom_data['policy'] == 'edf'
    assert trace.custom_data['engine'] == 'torch'
    diagnosed = [
        message.value.status[0]
        for message in trace.messages(topics=[f'{recording.namespace}/diagnostics'])
    ]
    assert all(status.name.endswith('recorder: trace') for status in diagnosed)


@pytest.mark.parametrize('recorded', [True, False])
def test_feedback_of_actions_is_left_out_if_asked(
    client: Client, tmp_path: Path, recorded: bool
) -> None:
    recording = Recording(client, tmp_path, action_feedback=recorded, topics=['*'])
    kinds = {
        'plan_task/_action/feedback': PlanTask.Impl.FeedbackMessage,
        # Found with the feedback, or after it.
        'scheduler_state': SchedulerState,
    }
    for name, kind in kinds.items():
        topic = f'{recording.namespace}/{name}'
        publisher = client.do(client.node.create_publisher, kind, topic, STATE_QOS)
        publisher.publish(kind())
        recording.publishers.append(publisher)
    wait_for(recording.publishers[-1].get_subscription_count, 'subscription')
    if recorded:
        wait_for(lambda: recording.recorded('plan_task/_action/feedback'), 'feedback')
    assert recording.end(signal.SIGINT) == 0, recording.log
    types = Trace(recording.trace).summary().types.values()
    assert any('_' in kind.rpartition('/')[2] for kind in types) == recorded
    mcap_ros2 = pytest.importorskip('mcap_ros2.reader')

    def read() -> list[str]:
        files = sorted(recording.trace.glob('*.mcap'))
        messages = (message for file in files for message in mcap_ros2.read_ros2_messages(file))
        return [message.channel.topic.rpartition('/')[2] for message in messages]

    if recorded:
        with pytest.raises(Exception, match='PlanTask_Feedback'):
            read()
    else:
        assert 'scheduler_state' in read()


def test_messages_that_the_middleware_lost_are_counted(client: Client, tmp_path: Path) -> None:
    port = free_port()
    recording = Recording(client, tmp_path, metrics_port=port)
    recording.publish(range(1))
    wait_for(lambda: recording.recorded('task_events') == 1, 'the first')
    watch = Watch(recorder=port)
    assert watch.firing() == []
    # While it stands still, more come than the middleware keeps for it.
    os.kill(recording.process.pid, signal.SIGSTOP)
    for number in range(5000):
        recording.publishers[2].publish(RobotState(segment=number))
    os.kill(recording.process.pid, signal.SIGCONT)
    recording.publishers[2].publish(RobotState(segment=10_000))

    def recorded() -> list[int]:
        topic = f'{recording.namespace}/drone_2/robot_state'
        return [
            message.value.segment for message in Trace(recording.trace).messages(topics=[topic])
        ]

    # A gap shows when something comes after it.
    wait_for(lambda: recorded()[-1:] == [10_000], 'the last one')
    wait_for(lambda: watch.firing() == ['TimelyRecorderDrops'], 'the alert')
    assert recording.end(signal.SIGINT) == 0, recording.log
    trace = Trace(recording.trace)
    lost = int(trace.custom_data['lost_messages'])
    assert lost > 0
    assert len(recorded()) + lost == 5002
    assert f'{lost} lost by the middleware' in recording.log


@pytest.mark.parametrize(
    ('first', 'then'),
    [
        (signal.SIGINT, signal.SIGINT),
        (signal.SIGINT, signal.SIGTERM),
        (signal.SIGTERM, signal.SIGINT),
    ],
)
def test_signals_while_closing_do_not_break_the_trace(
    client: Client, tmp_path: Path, first: signal.Signals, then: signal.Signals
) -> None:
    # The longest there is between two flushes: what it recorded is still in its memory.
    recording = Recording(client, tmp_path, flush_period_s=1.0)
    recording.publish(range(150))
    wait_for(lambda: recording.recorded('task_events'), 'the first chunk')
    recording.publish(range(150, 200))
    os.kill(recording.process.pid, first)

    assert recording.interrupt_until_it_ends(then) == 0, recording.log
    assert 'Traceback' not in recording.log
    assert (recording.trace / 'metadata.yaml').is_file()
    assert Trace(recording.trace).summary().damage == ''


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_signals_before_the_first_message_leave_a_whole_trace(
    tmp_path: Path, number: signal.Signals
) -> None:
    recording = Recording(None, tmp_path)
    wait_for((recording.trace / 'metadata.yaml').is_file, 'trace')

    assert recording.interrupt_until_it_ends(number) == 0, recording.log
    assert 'Traceback' not in recording.log
    assert Trace(recording.trace).summary().damage == ''


def test_a_killed_recorder_loses_only_the_last_chunk(client: Client, tmp_path: Path) -> None:
    recording = Recording(client, tmp_path, flush_period_s=0.1)
    recording.publish(range(20))
    wait_for(lambda: recording.recorded('task_events') == 20, 'all events')
    recording.publish(range(20, 25))
    assert recording.end(signal.SIGKILL) == -signal.SIGKILL
    trace = Trace(recording.trace)
    texts = [m.value.text for m in trace.messages(types=('timely_llm_ros/msg/TaskEvent',))]
    assert texts == [str(n) for n in range(len(texts))]
    assert len(texts) >= 20
    assert 'killed' in trace.damage


def test_a_full_disk_ends_the_recording_and_leaves_the_trace(
    client: Client, tmp_path: Path
) -> None:
    limit = 40_000
    recording = Recording(
        client,
        tmp_path,
        # A limit on the size of files is to the writer what a full disk is.
        before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        flush_period_s=0.1,
        metrics_port=(port := free_port()),
    )
    watch = Watch(recorder=port)
    rng = random.Random(0)

    def publish_until_it_ends() -> bool:
        # Random text does not compress away.
        text = ''.join(rng.choices('abcdefghijklmnopqrstuvwxyz0123456789', k=2000))
        recording.publishers[0].publish(TaskEvent(text=text))
        return recording.process.poll() is not None

    wait_for(publish_until_it_ends, 'the end of the recorder')
    assert recording.process.returncode == 1
    assert watch.fires('TimelyRecorderFailed')
    assert 'recording ends' in recording.log
    assert recording.recorded('task_events') > 0
    trace = Trace(recording.trace)
    said = re.search(r'/trace: (\d+) messages', recording.log)
    assert said is not None
    assert int(said[1]) == trace.summary().counts.total()
    assert 'its recorder failed: File too large' in trace.damage


@pytest.mark.parametrize(
    ('parameters', 'message'),
    [
        ({'custom_data': ['nonsense']}, 'name=value'),
        ({'output': '/proc/no/trace'}, "trace '/proc/no/trace': cannot be made"),
    ],
)
def test_what_cannot_be_recorded_is_said(
    tmp_path: Path, parameters: dict[str, object], message: str
) -> None:
    values = {'output': str(tmp_path / 'trace')} | parameters
    command = [sys.executable, str(ROOT / 'scripts' / 'recorder'), '--ros-args']
    for name, value in values.items():
        command += ['-p', f'{name}:={json.dumps(value)}']
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 1
    assert message in done.stderr
