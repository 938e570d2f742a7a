"""Three planners with shares: one is killed, and ``timely-llm fleet`` starts it again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pytest
import yaml
from support.process_table import children, command_line
from support.ros.programs import LIMIT_S, PYTHONPATH, ROOT, wait_for
from support.ros.ros_client import SUCCEEDED, QuietNode
from timely_llm_ros.action import PlanTask
from timely_llm_ros.msg import SkillSegment

from timely_llm_ros.errors import PlannerLostError, RobotUnavailableError
from timely_llm_ros.ros import SEGMENTS_QOS, TaskClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.ros.ros_client import Client

    from timely_llm_ros.ros import SentTask

SHARES = {'north': ['drone_1', 'drone_2'], 'south': ['drone_3', 'drone_4'], 'yard': ['a', 'b']}
ROBOTS = [(share, robot) for share, robots in SHARES.items() for robot in robots]
LONG = 'delay(10000);' * 6


@dataclass
class Shared:
    """A fleet of three shares that runs, with a client of each."""

    client: Client
    folder: Path
    process: subprocess.Popen[bytes]
    tasks: dict[str, TaskClient]
    segments: dict[str, list[SkillSegment]] = field(default_factory=dict)

    @property
    def printed(self) -> str:
        return (self.folder / 'printed').read_text(encoding='utf-8')

    def send(self, share: str, robot: str, instruction: str) -> SentTask:
        goal = PlanTask.Goal(robot=robot, instruction=instruction)
        return self.client.do(self.tasks[share].send, goal)

    def events(self, robot: str) -> list[str]:
        path = self.folder / f'{robot}.jsonl'
        text = path.read_text(encoding='utf-8') if path.exists() else ''
        return [json.loads(line)['event'] for line in text.splitlines()]

    def planner(self, share: str) -> int:
        """Return the process id of a share's planner."""
        found = [
            pid
            for pid in children(self.process.pid)
            if f'/{share} ' in (line := command_line(pid) + ' ') and '__node:=planner' in line
        ]
        return found[0] if found else 0


@pytest.fixture
def shared(client: Client, tmp_path: Path) -> Iterator[Shared]:
    namespace = f'shares_{os.getpid()}'
    patience = {'planner_timeout_s': 4.0, 'worker_timeout_s': 4.0}
    content = {
        'namespace': namespace,
        'robots': {robot: 'tello' for _, robot in ROBOTS},
        'shares': SHARES,
        'together': True,
        'planner': {'engine': 'simulated', 'robot_timeout_s': 4},
        'executor': patience | {'journal_path': str(tmp_path / '{robot}.jsonl')},
    }
    (tmp_path / 'fleet.yaml').write_text(yaml.safe_dump(content), encoding='utf-8')
    with (tmp_path / 'printed').open('wb') as output:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / 'scripts' / 'timely-llm'), 'fleet', 'fleet.yaml'],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=tmp_path,
            env=os.environ | {'PYTHONPATH': PYTHONPATH},
        )
    made = Shared(client, tmp_path, process, {})
    nodes: list[QuietNode] = []

    def meet(share: str) -> None:
        node = QuietNode('dispatcher', namespace=f'/{namespace}/{share}')
        nodes.append(node)
        made.tasks[share] = TaskClient(node, meet_limit_s=5.0)
        for robot in SHARES[share]:
            kept = made.segments.setdefault(robot, [])
            topic = f'{robot}/skill_segments'
            node.create_subscription(SkillSegment, topic, kept.append, SEGMENTS_QOS)
        client.add_node(node)

    try:
        wait_for(lambda: made.printed.count('planning for') == len(SHARES), 'three planners')
        for share in SHARES:
            client.do(meet, share)
        yield made
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(LIMIT_S)
        for node in nodes:
            client.remove_node(node)


def flies(shared: Shared, share: str, robot: str, sent: dict[str, SentTask]) -> bool:
    """Return whether a robot does a long task; send one, again where it was not taken."""
    task = sent.get(robot)
    if task is None or task.result.done():
        sent[robot] = shared.send(share, robot, LONG)
    return shared.events(robot)[-1:] == ['start']


def is_safe(shared: Shared, robot: str) -> bool:
    return shared.events(robot)[-1] == 'safe'


def served(shared: Shared, robot: str) -> SentTask:
    """Return a short task that succeeded; those before it were answered by "send it again".

    A goal can be lost while the new planner is being discovered, and is refused until it has met
    the robot.
    """
    while True:
        task = shared.send('south', robot, 'delay(100);')
        wait_for(task.result.done, f'a task of {robot} after the restart')
        if isinstance(task.result.exception(), PlannerLostError):
            continue
        if task.result.result().status == SUCCEEDED:
            return task
        assert task.result.result().result.error_code == RobotUnavailableError.code


def test_a_killed_planner_comes_back_and_the_other_shares_do_not_notice(shared: Shared) -> None:
    sent: dict[str, SentTask] = {}
    for share, robot in ROBOTS:
        wait_for(partial(flies, shared, share, robot, sent), robot)
    killed = wait_for(lambda: shared.planner('south'), 'planner')
    plans = {robot: sent[robot].accepted.result() for robot in SHARES['south']}
    os.kill(killed, signal.SIGKILL)

    for robot in SHARES['south']:
        # Whoever had sent a task is told that it can be sent again; its robot is safe.
        wait_for(sent[robot].result.done, f'end of the task of {robot}')
        with pytest.raises(PlannerLostError, match='send the task again'):
            sent[robot].result.result()
        wait_for(partial(is_safe, shared, robot), f'safe {robot}')
    before = {robot: len(shared.segments[robot]) for robot in plans}
    for robot in plans:
        task = served(shared, robot)
        # The new planner sent the new plan and nothing of the one before.
        told = {bytes(one.plan_id.uuid).hex() for one in shared.segments[robot][before[robot] :]}
        assert told == {task.accepted.result()} != {plans[robot]}
        assert f'robot {robot}: plan ' in shared.printed
    assert shared.planner('south') not in (0, killed)
    assert 'south.planner ended with exit code -9: it is started again' in shared.printed
    for segments in shared.segments.values():
        numbers = [(bytes(one.plan_id.uuid), one.index) for one in segments]
        assert len(set(numbers)) == len(numbers)
    for share, robot in ROBOTS:
        if share != 'south':
            assert 'safe' not in shared.events(robot)[1:]
            assert not sent[robot].result.done()

    shared.process.send_signal(signal.SIGINT)
    assert shared.process.wait(LIMIT_S) == 0, shared.printed
    assert {shared.events(robot)[-1] for _, robot in ROBOTS} == {'safe'}
