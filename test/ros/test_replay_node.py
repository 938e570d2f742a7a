"""A trace back onto its topics over real DDS: bytes, order, /clock, pause, step, seek, rate."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.serialization import serialize_message
from rosgraph_msgs.msg import Clock
from std_srvs.srv import Trigger
from support.ros.programs import Program, wait_for
from timely_llm_ros.msg import RobotState, TaskEvent

from lrtrace.storage.metadata import TopicQos
from lrtrace.storage.writer import TraceWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.ros.ros_client import Client

pytestmark = pytest.mark.distro

T0_NS = 1_760_000_000_000_000_000
SECONDS = 20
STATES = 'drone_1/robot_state'


@pytest.fixture(scope='module')
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of 20 s with an event every second and a state every half."""
    folder = tmp_path_factory.mktemp('traces') / 'run'
    writer = TraceWriter(folder)
    writer.add_topic('/task_events', 'timely_llm_ros/msg/TaskEvent')
    writer.add_topic(
        f'/{STATES}',
        'timely_llm_ros/msg/RobotState',
        TopicQos(durability='transient_local', depth=100),
    )
    for half in range(2 * SECONDS + 1):
        at_ns = T0_NS + half * 500_000_000
        if half % 2 == 0:
            event = TaskEvent(text=str(half // 2))
            writer.write('/task_events', serialize_message(event), log_ns=at_ns)
        state = RobotState(segment=half)
        writer.write(f'/{STATES}', serialize_message(state), log_ns=at_ns)
    writer.close()
    return folder


class Replay:
    """A replay of a trace under a prefix of its own, and what comes of it."""

    def __init__(self, client: Client, folder: Path, trace: Path, **parameters: Any) -> None:
        self.namespace = f'replay_{os.getpid()}_{folder.name}'
        self._client = client
        self.events: list[str] = []
        self.states: list[int] = []
        self.clock_s: list[float] = []
        prefix = f'/{self.namespace}'
        self._subscriptions = [
            client.do(client.node.create_subscription, kind, topic, take, 200)
            for kind, topic, take in (
                (TaskEvent, f'{prefix}/task_events', lambda m: self.events.append(m.text)),
                (RobotState, f'{prefix}/{STATES}', lambda m: self.states.append(m.segment)),
                (Clock, '/clock', self._on_clock),
            )
        ]
        given = {'trace': str(trace), 'prefix': prefix, 'start_paused': True, 'at_end': 'pause'}
        self.program = Program('replay', folder, given | parameters, namespace=self.namespace)

    def _on_clock(self, message: Clock) -> None:
        self.clock_s.append(message.clock.sec + message.clock.nanosec / 1e9 - T0_NS / 1e9)

    def wait_met(self) -> None:
        counts = [one.get_publisher_count for one in self._subscriptions]
        wait_for(lambda: all(count() for count in counts), 'publishers')
        wait_for(lambda: self.clock_s, '/clock')

    def call(self, name: str) -> Any:
        return self._client.service(
            Trigger, f'/{self.namespace}/replay/{name}', Trigger.Request(), again=False
        )

    def set(self, name: str, value: float) -> Any:
        parameter = Parameter(
            name=name,
            value=ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=value),
        )
        return self._client.service(
            SetParameters,
            f'/{self.namespace}/replay/set_parameters',
            SetParameters.Request(parameters=[parameter]),
        ).results[0]

    def close(self) -> None:
        self.program.close()
        for one in self._subscriptions:
            self._client.do(self._client.node.destroy_subscription, one)


@pytest.fixture
def replay(client: Client, tmp_path: Path, trace: Path) -> Iterator[Replay]:
    made = Replay(client, tmp_path, trace)
    made.wait_met()
    yield made
    made.close()


def test_steps_seeks_and_rates(replay: Replay) -> None:
    # Paused: the clock stands at the beginning.
    assert set(replay.clock_s) == {0.0}
    first = replay.call('play_next')
    assert (first.success, first.message) == (True, '/task_events')
    wait_for(lambda: replay.events == ['0'], 'the first event')
    assert replay.call('play_next').message == f'/{STATES}'
    assert replay.call('play_next').message == f'/{STATES}'
    wait_for(lambda: replay.states == [0, 1], 'two states')
    wait_for(lambda: replay.clock_s[-1] == 0.5, 'the clock where the step was recorded')
    # Back and forth; nothing in between comes.
    assert replay.set('position_s', 18.2).successful
    wait_for(lambda: replay.clock_s[-1] == pytest.approx(18.2), 'the clock at the place')
    assert replay.call('play_next').message == f'/{STATES}'
    wait_for(lambda: replay.states[-1] == 37, 'the state after the place')
    assert replay.set('position_s', 0.0).successful
    replay.call('play_next')
    wait_for(lambda: replay.events == ['0', '0'], 'the first event again')
    # What cannot be is refused with what can.
    for name, value, expected in (
        ('position_s', 99.0, '0 to 20.000 s'),
        ('rate', 0.0, 'range'),
    ):
        answer = replay.set(name, value)
        assert not answer.successful
        assert expected in answer.reason
    # On, much faster than it was.
    assert replay.set('rate', 100.0).successful
    assert replay.call('resume').message.startswith('playing at ')
    wait_for(lambda: replay.states[-1:] == [2 * SECONDS], 'the last state')
    told = [str(n) for n in range(1, SECONDS + 1)]
    wait_for(lambda: replay.events[2:] == told, 'every event')
    wait_for(lambda: replay.clock_s[-1] == pytest.approx(SECONDS), 'the clock at the end')
    wait_for(lambda: replay.call('play_next').message == 'the trace has ended', 'the pause there')


def test_pause_holds_messages_and_clock(replay: Replay) -> None:
    replay.set('rate', 10.0)
    assert replay.call('toggle_paused').message.startswith('playing')
    wait_for(lambda: len(replay.states) >= 3, 'some states')
    paused = replay.call('toggle_paused').message
    assert paused.startswith('paused at ')
    at_s = float(paused.split()[2])
    wait_for(lambda: replay.clock_s[-1] == pytest.approx(at_s, abs=0.002), 'the clock there')
    told = len(replay.clock_s)
    wait_for(lambda: len(replay.clock_s) > told + 10, 'more of the clock')
    assert replay.clock_s[-1] == pytest.approx(at_s, abs=0.002)
    # All of before, nothing of later.
    before = [*range(int(2 * replay.clock_s[-1]) + 1)]
    wait_for(lambda: replay.states == before, 'every state before')
    replay.set('rate', 100.0)
    replay.call('resume')
    wait_for(lambda: replay.states == [*range(2 * SECONDS + 1)], 'every state once')


def test_it_ends_with_the_trace_and_only_chosen_topics_are_played(
    client: Client, tmp_path: Path, trace: Path
) -> None:
    made = Replay(client, tmp_path, trace, topics=['*/robot_state'], at_end='exit', rate=50.0)
    wait_for(lambda: made.clock_s, '/clock')
    made.call('resume')
    assert made.program.wait() == 0, made.program.output
    assert f'{2 * SECONDS + 1} messages played' in made.program.output
    assert made.events == []
    made.close()


@pytest.mark.parametrize(
    ('parameters', 'message'),
    [
        ({'trace': '/nowhere'}, "trace '/nowhere': expected a rosbag2 folder"),
        ({'trace': ''}, 'parameter trace: expected'),
        ({'at_end': 'stop'}, "parameter 'at_end': 'stop': expected one of exit, pause, loop"),
        ({'topics': ['/nothing']}, 'no message to play'),
        ({'position_s': 60.0}, 'position 60.0 s: expected 0 to 20.000 s'),
    ],
)
def test_what_cannot_be_played_is_said(
    tmp_path: Path, trace: Path, parameters: dict[str, Any], message: str
) -> None:
    given = {'trace': str(trace)} | parameters
    program = Program('replay', tmp_path, given, namespace='nobody')
    assert program.wait() == 1
    assert message in program.output


def test_a_trace_with_too_many_topics_is_refused(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / 'run')
    for number in range(1001):
        writer.add_topic(f'/t{number}', 'timely_llm_ros/msg/TaskEvent')
        writer.write(f'/t{number}', serialize_message(TaskEvent()), log_ns=T0_NS)
    writer.close()
    program = Program('replay', tmp_path, {'trace': str(tmp_path / 'run')}, namespace='nobody')
    assert program.wait() == 1
    assert '1001 topics to play: expected at most 1000' in program.output


def test_it_ends_at_once_when_asked(tmp_path: Path, trace: Path) -> None:
    program = Program('replay', tmp_path, {'trace': str(trace)}, namespace='ends')
    wait_for(lambda: '2 topics' in program.output, 'the start')
    program.signal(signal.SIGINT)
    assert program.wait() == 0
    assert 'Traceback' not in program.output
