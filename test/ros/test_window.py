"""The window on a fleet over DDS: robots are found, tasks fly, and one button stops them all."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import pytest
from support.browser.chromium import CHROMIUM, Chromium
from support.ros.programs import Program, wait_for

from timely_llm_ros.ros.conversions import ROBOT_PHASES
from timely_llm_ros.window.fleet_events import ROBOT_PHASES as TOLD_PHASES
from timely_llm_ros.window.fleet_events import TASK_EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.ros.fleet import Fleet

ROBOTS = {'drone_1': 'tello', 'drone_2': 'tello'}


def test_events_have_the_names_that_messages_give_them() -> None:
    from timely_llm_ros.msg import TaskEvent

    assert [ROBOT_PHASES[name] for name in TOLD_PHASES] == [*range(len(TOLD_PHASES))]
    numbers = [getattr(TaskEvent, name.upper()) for name in TASK_EVENTS]
    assert numbers == [*range(len(TASK_EVENTS))]


@pytest.mark.skipif(CHROMIUM is None, reason='no chromium on this machine')
def test_a_task_sent_from_the_page_flies_and_stop_all_stops_all(
    start_fleet: Callable[..., Fleet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('ROS_HOME', str(tmp_path / 'ros_home'))
    fleet = start_fleet(robots=ROBOTS, executor={'time_scale': 1.0})
    window = Program('window', tmp_path, {'port': 0}, namespace=fleet.namespace)
    browser = Chromium(tmp_path)
    try:
        found = wait_for(lambda: re.search(r'http://\S+', window.output), 'the address')
        browser.open(found[0])
        browser.wait("document.querySelectorAll('[data-robot]').length === 2")
        browser.wait("!document.querySelector('#send').hidden")
        browser.evaluate("document.querySelector('#send select').value = 'drone_1'")
        words = 'takeoff;delay(10000);delay(10000);land;'
        browser.evaluate(f"document.querySelector('#send input').value = '{words}'")
        browser.evaluate("document.querySelector('#send').requestSubmit()")
        fleet.wait_started('delay(10000)')
        browser.wait("document.querySelector('.plan li[data-state=acts]') !== null")
        ways = "window.fleetWindow.panes[0].fleet.robots.get('drone_1').way?.to[2]"
        assert browser.wait(ways) > 0.3
        browser.click('#stop-all')
        browser.wait("document.querySelectorAll('#answers li').length === 2")
        told = browser.text('#answers')
        assert 'stopped' in told
        assert 'was at rest' in told
        fleet.wait_safe()
        wait_for(lambda: all(fleet.states[robot][-1].halted for robot in ROBOTS), 'their halt')
        browser.wait("!document.querySelector('#release-all').hidden")
        browser.click('#release-all')
        wait_for(lambda: not any(fleet.states[robot][-1].halted for robot in ROBOTS), 'release')
        assert not browser.messages
    finally:
        browser.close()
        window.signal(signal.SIGINT)
        assert window.wait() == 0
