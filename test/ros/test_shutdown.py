"""Ctrl-C reaches every program of a console at once: nobody then misses a robot that is safe."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from timely_llm_ros.msg import TaskEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.ros.fleet import Fleet


def test_a_robot_that_was_made_safe_is_not_missed(start_fleet: Callable[..., Fleet]) -> None:
    fleet = start_fleet(executor={'time_scale': 1.0})
    goal = fleet.plan('delay(10000);' * 6)
    fleet.wait_event(goal, TaskEvent.SEGMENT_STARTED)
    assert fleet.planner is not None
    programs = [fleet.executors[0], fleet.planner]
    for program in programs:
        program.signal(signal.SIGINT)
    assert [program.wait() for program in programs] == [0, 0]
    assert fleet.journal()[-1]['event'] == 'safe'
    for words in (': lost', 'not confirmed', 'no sign of life'):
        assert words not in fleet.planner.output, fleet.planner.output


def test_an_executor_that_went_down_before_is_not_asked(start_fleet: Callable[..., Fleet]) -> None:
    fleet = start_fleet(executor={'time_scale': 1.0})
    goal = fleet.plan('delay(10000);' * 6)
    fleet.wait_event(goal, TaskEvent.SEGMENT_STARTED)
    fleet.executors[0].signal(signal.SIGINT)
    assert fleet.executors[0].wait() == 0
    goal.result()
    assert fleet.planner is not None
    assert 'not confirmed' not in fleet.planner.output, fleet.planner.output
