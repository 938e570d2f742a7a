"""Messages become events, whatever they hold."""

from __future__ import annotations

import math
from types import SimpleNamespace as Message

import pytest

from timely_llm_ros.window import FleetLog, pose_event, robot_event, things_event, unapproved_event
from timely_llm_ros.window.fleet_events import MOST_LETTERS, MOST_OBJECTS


def robot_state(phase: int = 1, call: str = 'land') -> Message:
    return Message(
        skill_set='tello', phase=phase, plan_id=Message(uuid=bytes(16)), segment=2, call=call,
        queued_segments=1, halted=True, inactive=True,
    )  # fmt: skip


def pose(*, yaw: float) -> Message:
    turned = Message(x=0.0, y=0.0, z=math.sin(yaw / 2), w=math.cos(yaw / 2))
    return Message(position=Message(x=1.0, y=2.0, z=3.0), orientation=turned)


def marker(action: int = 0, number: int = 0, text: str = '') -> Message:
    three = Message(x=1.0, y=1.0, z=1.0)
    return Message(
        ns='a', id=number, type=1, action=action, pose=pose(yaw=0), scale=three, points=[],
        color=Message(r=1.0, g=0.0, b=0.0, a=1.0), text=text, lifetime=Message(sec=3, nanosec=0),
    )  # fmt: skip


def test_a_robots_state_says_what_it_does() -> None:
    event = robot_event('r', robot_state())
    assert event['phase'] == 'executing'
    assert (event['halted'], event['inactive']) == (True, True)
    assert event['plan'] == '0' * 32
    assert robot_event('r', robot_state(phase=200))['phase'] == 'unknown'


def test_who_comes_late_hears_which_plans_wait_for_approval() -> None:
    one, other = (Message(plan_id=Message(uuid=bytes([n] * 16))) for n in (1, 2))
    log = FleetLog()
    for t, approvals in enumerate([[other, one, one], [one]]):
        log.take({**unapproved_event(Message(approvals=approvals)), 't': t})
    assert log.events() == [{'event': 'unapproved', 'plans': ['01' * 16], 't': 1}]


def test_texts_are_cut_to_a_length() -> None:
    assert len(robot_event('r', robot_state(call='x' * 100_000))['call']) == MOST_LETTERS


@pytest.mark.parametrize('yaw', [0.0, 1.0, -2.5, 3.1])
def test_a_pose_tells_the_heading(yaw: float) -> None:
    assert pose_event('r', pose(yaw=yaw))['at'] == pytest.approx([1.0, 2.0, 3.0, yaw], abs=1e-3)


def test_markers_come_and_go() -> None:
    told = things_event('world_markers', Message(markers=[marker(3), marker(0, 1), marker(2, 2)]))
    assert [(one['id'], one['shape']) for one in told['things']] == [
        ('', ''), ('a/1', 'box'), ('a/2', ''),
    ]  # fmt: skip
    many = things_event('world_markers', Message(markers=[marker()] * 10_000))
    assert len(many['things']) == 4 * MOST_OBJECTS
