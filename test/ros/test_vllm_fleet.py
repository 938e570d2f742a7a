"""vLLM behind the real nodes, killed under load: who still has a plan, who is safe, who says so."""

from __future__ import annotations

import importlib.util
import os
import signal
from typing import TYPE_CHECKING

import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.time import Time
from support.process_table import tree, wait_gone
from support.ros.programs import wait_for
from support.ros.ros_client import ABORTED, SUCCEEDED
from support.serve_program import KEY, START_LIMIT_S, ServeProgram, serving
from timely_llm_ros.action import PlanTask
from timely_llm_ros.msg import GenerationState, SchedulerState, TaskEvent

from timely_llm_ros.engines.openai.options import API_KEY_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.ros.fleet import Fleet
    from support.ros.ros_client import Goal

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(
        importlib.util.find_spec('vllm') is None, reason='vLLM does not run on this machine'
    ),
]
Result = PlanTask.Result

CHECK = 'check for cats or cups'
"""Its plan asks twice whether something is seen: the rest is held until the robot answers."""

OBJECTS = ('cat_3', 'cup_1', 'dog_2')


def said(fleet: Fleet, name: str, since: int = 0) -> list[DiagnosticStatus]:
    """Return what diagnostics said of one part of the planner, oldest first."""
    return [
        status
        for message in tuple(fleet.diagnostics)[since:]
        for status in message.status
        if status.name.endswith(name)
    ]


def phases(state: SchedulerState) -> dict[str, int]:
    """Return where the generation of each robot that has one stood."""
    return {it.robot: it.phase for it in state.generations}


def one_is_held_and_one_complete(fleet: Fleet, whole: Goal) -> bool:
    """Return whether drone_1's plan waits for a value and drone_2's, which began, is complete."""
    *earlier, last = fleet.scheduler
    begun = fleet.events_of(whole, TaskEvent.SEGMENT_STARTED)[0]
    knows = Time.from_msg(last.header.stamp) > Time.from_msg(begun.header.stamp) or any(
        'drone_2' in phases(state) for state in earlier
    )
    return knows and phases(last) == {'drone_1': GenerationState.HELD}


def test_a_killed_engine_core(start_fleet: Callable[..., Fleet]) -> None:
    fleet = start_fleet(
        robots={'drone_1': 'tello', 'drone_2': 'tello', 'arm_1': 'arm'},
        planner={'engine': 'vllm', 'dtype': 'float32', 'profile': ''},
        executor={'time_scale': 0.5},
        start_limit_s=START_LIMIT_S,
    )
    assert fleet.planner is not None
    core = tree(fleet.planner.pid)[1:]
    held = fleet.plan(CHECK, objects=OBJECTS)
    whole = fleet.plan('take a picture of the dog', 'drone_2', OBJECTS)
    for robot in ('drone_1', 'drone_2'):
        fleet.wait_started('takeoff', robot)
    fleet.wait_event(whole, TaskEvent.SEGMENT_STARTED)
    wait_for(lambda: one_is_held_and_one_complete(fleet, whole), 'plans that far')
    since = len(fleet.diagnostics)
    for pid in core:
        os.kill(pid, signal.SIGKILL)

    # Whose plan was not complete is told so and made safe; who has a plan goes on with it.
    status, result = held.result()
    assert (status, result.error_code) == (ABORTED, Result.ENGINE_FAILED), result.error_msg
    assert 'engine' in result.error_msg
    fleet.wait_safe('drone_1')
    status, result = whole.result()
    assert status == SUCCEEDED, result.error_msg
    # Its connection began with one, and its end is one.
    assert 'safe' not in [line['event'] for line in fleet.journal('drone_2')[1:-1]]

    # It comes back by itself, and meanwhile tasks wait for it.
    waiting = [fleet.plan('pick up the cup', 'arm_1', OBJECTS), fleet.plan(CHECK, objects=OBJECTS)]
    for goal in waiting:
        fleet.wait_event(goal, TaskEvent.ACCEPTED)
    assert fleet.state() == 'active'
    for goal in waiting:
        status, result = goal.result(START_LIMIT_S)
        assert status == SUCCEEDED, result.error_msg
    told = said(fleet, 'engine', since)
    failed = [status for status in told if status.level == DiagnosticStatus.ERROR]
    assert failed
    assert failed[0].message.startswith('failed, restarting: ')
    wait_for(lambda: said(fleet, 'engine')[-1].message == 'serving', 'engine that serves again')
    wait_gone(core)


@pytest.fixture(scope='module')
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServeProgram]]:
    with serving(tmp_path_factory.mktemp('serve'), (False, False)) as started:
        yield started


def test_one_of_two_killed_servers(
    servers: list[ServeProgram],
    start_fleet: Callable[..., Fleet],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(API_KEY_VARIABLE, KEY)
    robots = {'drone_1': 'tello', 'drone_2': 'tello', 'drone_3': 'tello', 'arm_1': 'arm'}
    fleet = start_fleet(
        robots=robots,
        planner={
            'engine': 'openai',
            'server_urls': [program.url for program in servers],
            'profile': '',
            'max_running': 2,
        },
    )
    victim, other = servers
    processes = tree(victim.process.pid)
    since = len(fleet.diagnostics)
    # It takes requests and answers none, so that generations are under way when it is killed.
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    goals = [
        fleet.plan(
            'pick up the cup' if robot == 'arm_1' else CHECK,
            robot,
            OBJECTS,
            when_busy=PlanTask.Goal.BUSY_QUEUE,
        )
        for _ in range(3)
        for robot in robots
    ]
    for goal in goals:
        fleet.wait_event(goal, TaskEvent.ACCEPTED)
    wait_for(lambda: any(goal.answer is not None for goal in goals), 'task of the other server')
    for pid in processes:
        os.kill(pid, signal.SIGKILL)
    for goal in goals:
        status, result = goal.result()
        assert status == SUCCEEDED, result.error_msg

    def lost() -> list[DiagnosticStatus]:
        return [it for it in said(fleet, f'server {victim.url}', since) if it.level]

    found = wait_for(lost, 'word of the lost server')
    assert found[-1].level == DiagnosticStatus.WARN, 'the other one serves'
    assert found[-1].message.startswith('lost, tried again: ')
    assert said(fleet, f'server {other.url}')[-1].message == 'serving'
    assert fleet.state() == 'active'
    assert fleet.planner is not None
    assert KEY not in fleet.planner.output
