"""A page that comes late is told what still matters, and no more than that."""

from __future__ import annotations

import json
import math
from typing import Any

from timely_llm_ros.window import FleetLog, to_text
from timely_llm_ros.window.fleet_log import MOST_SAMPLES, MOST_STATES, MOST_TASKS


def task(plan: str, what: str, t: float) -> dict[str, Any]:
    return {'event': 'task', 'what': what, 'plan': plan, 'robot': 'r', 't': t}


def engine(t: float, running: int = 0) -> dict[str, Any]:
    counts = {'running': running, 'queued': 0, 'suspended': 0, 'held': 0}
    return {'event': 'scheduler', **counts, 't': t}


def loads(log: FleetLog) -> list[tuple[float, int]]:
    return [(one['t'], one['running']) for one in log.events() if one['event'] == 'load']


def test_of_a_state_the_last_is_kept_and_of_a_task_everything_in_order() -> None:
    log = FleetLog()
    log.take(task('p', 'accepted', 1.0))
    log.take({'event': 'robot', 'robot': 'r', 'call': 'takeoff', 't': 2.0})
    log.take(task('p', 'segment_started', 3.0))
    log.take({'event': 'robot', 'robot': 'r', 'call': 'land', 't': 4.0})
    told = [(event['t'], event.get('what') or event.get('call')) for event in log.events()]
    assert told == [(1.0, 'accepted'), (3.0, 'segment_started'), (4.0, 'land')]


def test_of_where_a_robot_is_the_first_is_kept_too() -> None:
    """What it knows lies so from there."""
    log = FleetLog()
    for t in (1.0, 2.0, 3.0):
        log.take({'event': 'pose', 'robot': 'r', 'at': [t, 0.0, 0.0, 0.0], 't': t})
    assert [event['at'][0] for event in log.events()] == [1.0, 3.0]


def test_tasks_that_ended_are_forgotten_before_those_that_go_on() -> None:
    log = FleetLog()
    log.take(task('goes_on', 'accepted', 0.0))
    for number in range(2 * MOST_TASKS):
        log.take(task(f'p{number}', 'accepted', number))
        log.take(task(f'p{number}', 'ended', number))
    plans = {event['plan'] for event in log.events()}
    assert len(plans) == MOST_TASKS
    assert 'goes_on' in plans
    assert f'p{2 * MOST_TASKS - 1}' in plans


def test_nobody_fills_the_memory_with_robots_or_samples() -> None:
    log = FleetLog()
    for number in range(MOST_STATES + 100):
        log.take({'event': 'robot', 'robot': f'r{number}', 't': 0.0})
        log.take(engine(float(number)))
    kinds = [event['event'] for event in log.events()]
    assert kinds.count('robot') + kinds.count('scheduler') <= MOST_STATES
    assert kinds.count('load') == MOST_SAMPLES


def test_samples_are_apart_and_begin_anew_with_the_clock() -> None:
    log = FleetLog()
    for t in (10.0, 10.05, 10.1, 10.3):
        log.take(engine(t))
    assert loads(log) == [(10.0, 0), (10.1, 0), (10.3, 0)]
    log.take(engine(2.0))
    assert loads(log) == [(2.0, 0)]


def test_an_engine_that_came_to_rest_is_not_shown_at_work_until_the_next_task() -> None:
    log = FleetLog()
    for t, running in ((10.0, 1), (10.05, 2), (10.1, 0), (20.0, 1)):
        log.take(engine(t, running))
    assert loads(log) == [(10.0, 1), (10.1, 0), (20.0, 1)]


def test_a_number_that_is_none_becomes_null() -> None:
    text = to_text({'a': [math.nan, 1.5], 'b': {'c': math.inf}})
    assert json.loads(text) == {'a': [None, 1.5], 'b': {'c': None}}
