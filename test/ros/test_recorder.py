"""The recorder over real DDS: all is recorded, and a kill -9 loses only the end."""

from __future__ import annotations

import itertools
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
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from support.loopback import free_port
from support.ros.programs import LIMIT_S, ROOT, wait_for
from support.ros.scraping import Watch
from timely_llm_ros.action import PlanTask
from timely_llm_ros.msg import RobotState, SchedulerState, SkillSegment, TaskEvent

from lrtrace.storage.reader import Trace
from timely_llm_ros.ros.topics import STATE_QOS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.ros.ros_client import Client

pytestmark = pytest.mark.distro

_numbers = itertools.count(1)


class Recording:
    """A recorder in a namespace of its own, and publishers for it to hear if there is a client."""

    def __init__(
        self,
        client: Client | None,
        folder: Path,
        *,
        before: Callable[[], None] | None = None,
        **parameters: object,
    ) -> None:
        self.client = client
        self.namespace = f'/recording_{os.getpid()}_{next(_numbers)}'
        self.trace = folder / 'trace'
        parameters = {'output': str(self.trace), 'robots': ['drone_1']} | parameters
        command = [sys.executable, str(ROOT / 'scripts' / 'recorder'), '--ros-args']
        command += ['-r', f'__ns:={self.namespace}']
        for name, value in parameters.items():
            command += ['-p', f'{name}:={json.dumps(value)}']
        self._log = folder / 'recorder.log'
        with self._log.open('wb') as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=before)
        if client is None:
            return
        self.publishers = [
            # Deep enough for a whole burst: a publisher drops what overflows its own history.
            client.do(client.node.create_publisher, kind, f'{self.namespace}/{name}', 200)
            for kind, name in (
                (TaskEvent, 'task_events'),
                (SkillSegment, 'drone_1/skill_segments'),
                (RobotState, 'drone_2/robot_state'),
            )
        ]
        if parameters.get('autostart', True):
            self.wait_heard()

    def wait_heard(self) -> None:
        wait_for(
            lambda: all(one.get_subscription_count() for one in self.publishers), 'subscriptions'
        )

    def change(self, *transitions: int) -> bool:
        """Take the recorder through transitions; return whether all succeeded."""
        assert self.client is not None
        name = f'{self.namespace}/recorder/change_state'
        return all(
            self.client.service(
                ChangeState, name, ChangeState.Request(transition=Transition(id=transition))
            ).success
            for transition in transitions
        )

    @property
    def state(self) -> str:
        assert self.client is not None
        name = f'{self.namespace}/recorder/get_state'
        return str(self.client.service(GetState, name, GetState.Request()).current_state.label)

    def publish(self, numbers: range) -> None:
        for number in numbers:
            self.publishers[0].publish(TaskEvent(text=str(number)))
            self.publishers[1].publish(SkillSegment(index=number))
            self.publishers[2].publish(RobotState(segment=number))

    def recorded(self, topic: str) -> int:
        return Trace(self.trace).summary().counts[f'{self.namespace}/{topic}']

    def end(self, number: signal.Signals) -> int:
        os.kill(self.process.pid, number)
        return self.process.wait(LIMIT_S)

    def interrupt_until_it_ends(self, number: signal.Signals) -> int:
        """Send the signal again and again, so that no moment of its end is spared."""

        def ended() -> bool:
            self.process.send_signal(number)
            return self.process.poll() is not None

        wait_for(ended, 'the end of the recorder')
        return int(self.process.returncode)

    @property
    def log(self) -> str:
        return self._log.read_text()


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


def texts(trace: Path) -> list[str]:
    events = Trace(trace).messages(types=('timely_llm_ros/msg/TaskEvent',))
    return [message.value.text for message in events]


def test_only_what_comes_while_the_recorder_is_active_is_recorded(
    client: Client, tmp_path: Path
) -> None:
    recording = Recording(client, tmp_path)
    topic = f'{recording.namespace}/scheduler_state'
    states = client.do(client.node.create_publisher, SchedulerState, topic, STATE_QOS)
    states.publish(SchedulerState(engine='torch'))
    recording.publish(range(3))
    wait_for(lambda: recording.recorded('task_events') == 3, 'the first')
    wait_for(lambda: recording.recorded('scheduler_state') == 1, 'the state')

    assert recording.change(Transition.TRANSITION_DEACTIVATE)
    heard = [*recording.publishers, states]
    wait_for(lambda: not any(one.get_subscription_count() for one in heard), 'silence')
    recording.publish(range(3, 6))
    assert recording.change(Transition.TRANSITION_ACTIVATE)
    recording.wait_heard()
    recording.publish(range(6, 9))
    wait_for(lambda: recording.recorded('task_events') == 6, 'the rest')
    assert recording.change(Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP)
    assert recording.state == 'unconfigured'
    first = Trace(recording.trace)
    assert first.summary().damage == ''
    assert first.custom_data['lost_messages'] == '0'
    assert texts(recording.trace) == ['0', '1', '2', '6', '7', '8']
    assert 'messages of' in recording.log

    # The next trace begins with what late subscribers are told.
    assert recording.change(Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE)
    recording.trace = recording.trace.with_name('trace_2')
    recording.wait_heard()
    wait_for(lambda: recording.recorded('scheduler_state') == 1, 'the state again')
    recording.publish(range(9, 12))
    assert recording.end(signal.SIGINT) == 0, recording.log
    client.do(client.node.destroy_publisher, states)
    assert texts(recording.trace) == ['9', '10', '11']
    second = Trace(recording.trace)
    assert second.summary().damage == ''
    assert second.custom_data['run_id'] != first.custom_data['run_id']
    assert recording.log.count('messages of') == 2


def test_without_autostart_a_recorder_waits_and_says_so(client: Client, tmp_path: Path) -> None:
    (tmp_path / 'trace').mkdir()
    recording = Recording(client, tmp_path, autostart=False)
    told: list[str] = []
    hear = client.do(
        client.node.create_subscription,
        DiagnosticArray,
        f'{recording.namespace}/diagnostics',
        lambda message: told.append(message.status[0].message),
        10,
    )
    wait_for(lambda: told and told[-1].startswith('inactive'), 'its health')
    assert not recording.change(Transition.TRANSITION_CONFIGURE)
    assert recording.state == 'unconfigured'
    assert "trace'" in recording.log

    (tmp_path / 'trace').rmdir()
    assert recording.change(Transition.TRANSITION_CONFIGURE)
    assert recording.recorded('task_events') == 0
    assert recording.change(Transition.TRANSITION_ACTIVATE)
    recording.wait_heard()
    recording.publish(range(3))
    wait_for(lambda: recording.recorded('task_events') == 3, 'all')
    wait_for(lambda: told[-1] == 'recording', 'its health')
    assert recording.change(Transition.TRANSITION_ACTIVE_SHUTDOWN)
    client.do(client.node.destroy_subscription, hear)
    assert recording.state == 'finalized'
    assert texts(recording.trace) == ['0', '1', '2']
    assert Trace(recording.trace).summary().damage == ''
    assert recording.end(signal.SIGTERM) == 0, recording.log
    assert recording.log.count('messages of') == 1
