"""The recorder as a managed node: what it records while it is active, and nothing else."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import Transition
from support.ros.programs import wait_for
from support.ros.recording import Recording
from timely_llm_ros.msg import SchedulerState

from lrtrace.storage.reader import Trace
from timely_llm_ros.ros.topics import STATE_QOS

if TYPE_CHECKING:
    from pathlib import Path

    from support.ros.ros_client import Client

pytestmark = pytest.mark.distro


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
