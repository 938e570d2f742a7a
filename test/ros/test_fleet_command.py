"""``timely-llm fleet``: everything of a fleet starts, serves, and ends with its robots safe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import yaml
from lifecycle_msgs.srv import GetState
from support.ros.programs import LIMIT_S, PYTHONPATH, ROOT, wait_for
from support.ros.ros_client import Goal
from timely_llm_ros.action import PlanTask

from lrtrace.storage import Trace
from lrtrace.timeline import read_run
from timely_llm_ros.ros.action_client import GoalClient

if TYPE_CHECKING:
    from pathlib import Path

    from support.ros.ros_client import Client


def events(path: Path) -> list[str]:
    text = path.read_text(encoding='utf-8') if path.exists() else ''
    return [json.loads(line)['event'] for line in text.splitlines()]


def test_a_fleet_starts_serves_and_ends_safe_and_recorded(client: Client, tmp_path: Path) -> None:
    namespace = f'fleet_command_{os.getpid()}'
    patience: dict[str, Any] = {'planner_timeout_s': 4.0, 'worker_timeout_s': 4.0}
    fleet = {
        'namespace': namespace,
        'robots': {'drone_1': 'tello', 'drone_2': 'tello'},
        'planner': {'engine': 'simulated', 'robot_timeout_s': 4},
        'executor': patience | {'journal_path': str(tmp_path / '{robot}.jsonl')},
        'recorder': {'output': str(tmp_path / 'trace')},
        'window': {'port': 0},
    }
    (tmp_path / 'fleet.yaml').write_text(yaml.safe_dump(fleet), encoding='utf-8')
    printed = tmp_path / 'printed'
    with printed.open('wb') as output:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / 'scripts' / 'timely-llm'), 'fleet', 'fleet.yaml']
            + ['--log-format', 'json', '--logs', str(tmp_path / 'logs')],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=tmp_path,
            env=os.environ | {'PYTHONPATH': PYTHONPATH},
        )
    try:
        state = f'/{namespace}/planner/get_state'
        wait_for(
            lambda: client.service(GetState, state, GetState.Request()).current_state.label
            == 'active'
        )
        plan = client.do(GoalClient, client.node, PlanTask, f'/{namespace}/plan_task')
        wait_for(plan.server_is_ready, 'planner')
        wait_for(lambda: 'planning for' in printed.read_text(encoding='utf-8'))
        goals = []
        for robot in fleet['robots']:

            def started(robot: str = robot) -> bool:
                # Until the planner has met the robot it refuses what is for it.
                goal = PlanTask.Goal(robot=robot, instruction='delay(10000);' * 6)
                goals.append(Goal(client, plan, goal))
                wait_for(lambda: goals[-1].accepted is not None)
                path = tmp_path / f'{robot}.jsonl'
                over = lambda: not goals[-1].accepted or goals[-1].answer is not None  # noqa: E731
                wait_for(lambda: 'start' in events(path) or over())
                return 'start' in events(path)

            wait_for(started, robot)
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(LIMIT_S)
    text = printed.read_text(encoding='utf-8')
    assert code == 0, text
    for robot in fleet['robots']:
        assert events(tmp_path / f'{robot}.jsonl')[-1] == 'safe'
    trace = Trace(tmp_path / 'trace')
    assert not trace.cut_off
    ended = [task for task in read_run(trace).tasks if task.ended_s is not None]
    assert {task.robot for task in ended} == set(fleet['robots'])
    programs = {json.loads(line)['program'] for line in text.splitlines()}
    assert programs == {'planner', 'drone_1_executor', 'drone_2_executor', 'recorder', 'window'}
