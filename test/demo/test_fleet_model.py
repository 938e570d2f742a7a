"""The live view: the model follows the fleet's events, the terminal shows it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from support.examples import examples

from timely_llm_ros.demo.fleet_model import FleetModel, TaskView
from timely_llm_ros.demo.live_view import plain_line, render


def task(what: str, plan: str = 'p1', robot: str = 'drone_1', **values: Any) -> dict[str, Any]:
    return {
        'event': 'task', 'what': what, 'plan': plan, 'robot': robot, 'kind': 'look_for',
        'instruction': 'look for the cat', 'expected_response_s': 1.0, 'slope_per_s': -2.0,
        'peak': 1.0, 'at_s': 0.0, 'segment': 0, 'status': 4, 'error': '', 'utility': 0.0,
        **values,
    }  # fmt: skip


def body(phase: str, call: str = '', robot: str = 'drone_1') -> dict[str, Any]:
    return {
        'event': 'robot', 'robot': robot, 'phase': phase, 'plan': '', 'segment': 0, 'call': call,
        'queued_segments': 0,
    }  # fmt: skip


def segment(index: int, plan: str = 'p1', robot: str = 'drone_1') -> dict[str, Any]:
    return {'event': 'segment', 'plan': plan, 'robot': robot, 'index': index, 'text': 'scan;'}


def engine(**values: Any) -> dict[str, Any]:
    return {
        'event': 'scheduler', 'engine': 'torch', 'mode': 'segmented', 'policy': 'utility',
        'running': 1, 'suspended': 2, 'held': 0, 'queued': 3, 'kv_tokens': 400,
        'kv_capacity_tokens': 32768, 'step_s': 0.0217, **values,
    }  # fmt: skip


def task_of(model: FleetModel, robot: str = 'drone_1') -> TaskView:
    found = model.robots[robot].task
    assert found is not None
    return found


def shown(model: FleetModel, now_s: float) -> str:
    console = Console(width=120, record=True, file=None, color_system=None)
    with console.capture() as capture:
        console.print(render(model, title='run', progress='3 of 9', now_s=now_s))
    return capture.get()


def test_a_task_from_acceptance_to_result() -> None:
    assert not FleetModel.of(['drone_1']).all_seen
    model = FleetModel.of(['drone_1'])
    robot = model.robots['drone_1']
    model.apply(body('idle'), 10.0)
    assert model.all_seen
    assert robot.phase == 'idle'
    assert robot.task is None
    model.apply(task('accepted'), 10.0)
    assert robot.phase == 'generating'
    seen = task_of(model)
    assert seen.deadline_left_s(10.4) == pytest.approx(0.6)
    assert seen.utility_now(10.4) == 1.0
    assert seen.utility_now(11.25) == pytest.approx(0.5)
    at_first = seen.next_ready
    model.apply(segment(0), 10.5)
    assert (at_first, seen.next_ready) == (False, True)
    model.apply(body('executing', 'takeoff'), 10.5)
    model.apply(task('segment_started', at_s=0.5), 10.5)
    assert (robot.phase, robot.call, seen.next_ready) == ('executing', 'takeoff', False)
    assert seen.deadline_left_s(10.9) is None
    assert seen.utility_now(99.0) == 1.0
    model.apply(segment(1), 11.0)
    assert seen.next_ready
    model.apply(body('waiting'), 12.0)
    assert robot.phase == 'waiting'
    model.apply(task('ended'), 14.0)
    assert (model.done, robot.failed, model.late, model.responses_s) == (1, 0, 0, [0.5])
    assert (robot.task, robot.phase) == (None, 'idle')


def test_events_of_different_topics_may_come_in_any_order() -> None:
    model = FleetModel.of(['drone_1'])
    model.apply(segment(0), 1.0)
    model.apply(segment(1), 1.0)
    model.apply(task('accepted'), 1.0)
    assert task_of(model).generated == 2


def test_a_late_response_is_counted() -> None:
    model = FleetModel.of(['drone_1'])
    model.apply(task('accepted'), 0.0)
    model.apply(task('segment_started', at_s=1.7), 1.7)
    assert model.late == 1
    assert task_of(model).utility_now(5.0) == pytest.approx(-0.4)


def test_a_queued_task_begins_when_the_one_before_it_ends() -> None:
    model = FleetModel.of(['drone_1'])
    model.apply(task('accepted', 'p1'), 0.0)
    model.apply(task('accepted', 'p2', kind='check_on'), 1.0)
    assert task_of(model).plan == 'p1'
    model.apply(task('ended', 'p1', error='no'), 2.0)
    assert (task_of(model).plan, task_of(model).kind) == ('p2', 'check_on')
    assert model.robots['drone_1'].failed == 1


def test_refusals_and_strangers() -> None:
    model = FleetModel.of(['drone_1'])
    model.apply(task('refused', error='busy'), 0.0)
    robot = model.robots['drone_1']
    assert (robot.failed, robot.task) == (1, None)
    model.apply(task('accepted', robot='ghost'), 0.0)
    model.apply(body('idle', robot='ghost'), 0.0)
    model.apply({'event': 'something new'}, 0.0)
    assert (list(model.robots), robot.task) == (['drone_1'], None)


@given(st.integers(0, 10**6))
@examples(40)
def test_no_order_of_events_breaks_it(seed: int) -> None:
    rng = random.Random(seed)
    model = FleetModel.of(['drone_1', 'arm_1'])
    for now in range(40):
        plan, robot = rng.choice('abc'), rng.choice(['drone_1', 'arm_1', 'ghost'])
        event = rng.choice(
            [
                task(rng.choice(['accepted', 'refused', 'segment_started', 'ended']), plan, robot),
                body(rng.choice(['idle', 'executing', 'waiting', 'safe', 'lost']), 'scan', robot),
                segment(rng.randrange(4), plan, robot),
                engine(running=rng.randrange(3)),
            ]
        )
        model.apply(event, float(now))
        assert shown(model, float(now))


def test_the_terminal_shows_every_robot_and_the_engine() -> None:
    model = FleetModel.of(['drone_1', 'arm_1'])
    model.apply(engine(), 0.0)
    model.apply(task('accepted', kind='avoid_injury', peak=2.0), 0.0)
    model.apply(segment(0), 0.1)
    model.apply(body('executing', 'move_up(100)'), 0.1)
    model.apply(task('segment_started', at_s=0.12), 0.12)
    text = shown(model, 0.2)
    for part in ('drone_1', 'arm_1', 'avoid injury', 'move_up(100)', 'kept 0.12 s', '21.7 ms',
                 'suspended 2', 'queued 3', '400/32768'):  # fmt: skip
        assert part in text, part


def test_markup_in_names_stays_text() -> None:
    model = FleetModel.of(['drone_1'])
    model.apply(task('accepted', kind='[bold]x[/nonsense]'), 0.0)
    model.apply(body('executing', '[red]evil[/red][/]'), 0.0)
    assert '[red]evil[/red][/]' in shown(model, 0.0)


def test_one_line_for_logs() -> None:
    model = FleetModel.of(['drone_1'])
    model.apply(engine(), 0.0)
    assert 'no robot acts' in plain_line(model, title='run', progress='0 of 1')
    model.apply(task('accepted'), 0.0)
    model.apply(body('executing', 'scan'), 0.0)
    model.apply(task('segment_started', at_s=0.1), 0.1)
    line = plain_line(model, title='run', progress='0 of 1')
    assert 'drone_1 scan' in line
    assert '\n' not in line
