"""Every launch file, by ``ros2 launch``: up, at work, and down again without an error."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest
import yaml
from support import process_table
from support.ros.programs import ROOT, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from support.ros.ros2_tools import Launched, Ros2

FILES = sorted(path.name for path in (ROOT / 'launch').glob('*.launch.py'))
PLAN_TASK = 'timely_llm_ros/action/PlanTask'
PLAN = 'takeoff;land;'


def launch_fleet(ros2: Ros2, namespace: str, robots: str, **arguments: object) -> Launched:
    """Start a fleet and wait until it takes tasks."""
    fleet = ros2.launch(
        'fleet',
        namespace=namespace,
        robots=robots,
        params_file=ros2.folder / 'planner.yaml',
        executor_params_file=ros2.folder / 'executor.yaml',
        **arguments,
    )
    names = [robot.partition(':')[0] for robot in robots.split(',')]
    fleet.wait_for('planning for', *(f'executing for {name}' for name in names))
    return fleet


def plan(ros2: Ros2, namespace: str, robot: str, instruction: str) -> str:
    goal = f'{{robot: {robot}, instruction: "{instruction}"}}'
    return ros2.run('action', 'send_goal', '--feedback', f'/{namespace}/plan_task', PLAN_TASK, goal)


@pytest.mark.parametrize('file', FILES)
def test_the_arguments_are_told(ros2: Ros2, file: str) -> None:
    told = ros2.run('launch', 'timely_llm_ros', file, '--show-args')
    assert all(f"'{name}':" in told for name in ('namespace', 'use_sim_time', 'log_level'))


def test_a_fleet_comes_up_plans_and_goes_down_with_ctrl_c(ros2: Ros2) -> None:
    fleet = launch_fleet(ros2, 'whole', 'drone_1:tello,arm_1:arm')
    answer = plan(ros2, 'whole', 'drone_1', PLAN)
    assert 'Goal finished with status: SUCCEEDED' in answer
    fleet.end()


def test_a_robot_that_works_is_safe_after_ctrl_c_and_nobody_misses_it(ros2: Ros2) -> None:
    fleet = launch_fleet(ros2, 'busy', 'drone_1:tello')
    goal = ros2.start(
        'action', 'send_goal', '--feedback', '/busy/plan_task', PLAN_TASK,
        f'{{robot: drone_1, instruction: "{"delay(10000);" * 6}"}}',
    )  # fmt: skip
    goal.wait_for('Feedback:')
    fleet.end()
    for words in (': lost', 'not confirmed', 'no sign of life'):
        assert words not in fleet.output
    goal.wait_for('ABORTED')


def test_a_fleet_ends_with_its_planner(ros2: Ros2) -> None:
    fleet = launch_fleet(ros2, 'orphans', 'drone_1:tello,drone_2:tello')
    programs = fleet.programs()
    (planner,) = (pid for pid in programs if 'timely_llm_ros/planner' in _program(pid))
    os.kill(planner, signal.SIGKILL)
    fleet.wait()
    process_table.wait_gone(programs)
    assert fleet.output.count('process has finished cleanly') == 2, fleet.output


@pytest.mark.parametrize('number', [signal.SIGKILL, signal.SIGTERM])
def test_no_robot_flies_on_when_launch_alone_is_gone(ros2: Ros2, number: signal.Signals) -> None:
    robot = f'flies_{number.name.lower()}'
    fleet = launch_fleet(ros2, robot, f'{robot}:tello')
    goal = ros2.start(
        'action', 'send_goal', '--feedback', f'/{robot}/plan_task', PLAN_TASK,
        f'{{robot: {robot}, instruction: "{"delay(10000);" * 6}"}}',
    )  # fmt: skip
    goal.wait_for('Feedback:')
    programs = fleet.programs()
    assert len(programs) == 3  # The planner, the executor and its guard.
    os.kill(fleet.process.pid, number)
    process_table.wait_gone(programs)
    lines = (ros2.folder / f'{robot}.jsonl').read_text(encoding='utf-8').splitlines()
    assert json.loads(lines[-1])['event'] == 'safe'


def test_a_planner_that_is_killed_is_started_again_where_that_is_asked_for(ros2: Ros2) -> None:
    fleet = launch_fleet(ros2, 'again', 'drone_1:tello', use_respawn='true')
    (planner,) = (pid for pid in fleet.programs() if 'timely_llm_ros/planner' in _program(pid))
    os.kill(planner, signal.SIGKILL)
    wait_for(lambda: fleet.output.count('planning for') == 2, 'the next planner')
    assert 'Goal finished with status: SUCCEEDED' in plan(ros2, 'again', 'drone_1', PLAN)
    programs = fleet.programs()
    fleet.interrupt()
    fleet.wait()
    process_table.wait_gone(programs)


def _program(pid: int) -> str:
    """The program's file of a process that launch has started itself."""
    words = process_table.command_line(pid).split()
    return words[1] if '--ros-args' in words else ''


def shipped_without_model(ros2: Ros2) -> Path:
    """The planner's parameter file that ships, without the model, which has tests of its own."""
    content = yaml.safe_load((ROOT / 'config' / 'planner.yaml').read_text(encoding='utf-8'))
    (node,) = content.values()
    node['ros__parameters'] |= {'engine': 'simulated', 'robot_timeout_s': 4.0}
    path = ros2.folder / 'shipped.yaml'
    path.write_text(yaml.safe_dump(content), encoding='utf-8')
    return path


def test_a_planner_and_a_robot_of_their_own_are_recorded_and_replayed(ros2: Ros2) -> None:
    pytest.importorskip('mcap')
    from lrtrace.storage.reader import Trace

    namespace, trace = 'apart', ros2.folder / 'trace'
    recorder = ros2.launch('record', namespace=namespace, output=trace)
    recorder.wait_for('recording')
    robot = ros2.launch(
        'robot',
        namespace=namespace,
        robot='drone_1',
        params_file=ros2.folder / 'executor.yaml',
    )
    robot.wait_for('executing for drone_1')
    planner = ros2.launch('planner', namespace=namespace, params_file=shipped_without_model(ros2))
    planner.wait_for('planning for drone_1')
    answer = plan(ros2, namespace, 'drone_1', PLAN)
    assert 'Goal finished with status: SUCCEEDED' in answer
    for transition, state in (
        ('deactivate', 'inactive'),
        ('activate', 'active'),
        ('deactivate', 'inactive'),
        ('cleanup', 'unconfigured'),
        ('configure', 'inactive'),
        ('activate', 'active'),
    ):
        node = f'/{namespace}/recorder'
        assert 'Transitioning successful' in ros2.run('lifecycle', 'set', node, transition)
        assert ros2.run('lifecycle', 'get', node).split()[0] == state
    for launched in (planner, robot, recorder):
        launched.end()
    topics = {message.topic for message in Trace(trace).messages()}
    assert {f'/{namespace}/task_events', f'/{namespace}/drone_1/robot_state'} <= topics
    again = {message.topic for message in Trace(f'{trace}_2').messages()}
    assert f'/{namespace}/drone_1/robot_state' in again
    replay = ros2.launch('replay', trace=trace, rate=100.0, prefix='/again')
    assert replay.wait() == 0, replay.output
    replay.assert_clean()
