"""Arms over real DDS: one under ros2_control's topics, one through its maker's SDK."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from support.ros.fleet import Fleet
from support.ros.programs import wait_for
from timely_llm_ros.msg import SceneObject

from timely_llm_ros.drivers.indy.mock.arm import MockIndy
from timely_llm_ros.drivers.journal import read_journal
from timely_llm_ros.execution import SegmentCode
from timely_llm_ros.testing import JOINTED_HOME, JOINTED_POSES, JOINTED_YAML

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.ros.ros_client import Client
    from timely_llm_ros.action import ExecuteSegment

HOLD_S = 0.2
"""What a stop takes by default (s); motions between poses take longer."""

PATIENT_S = 20.0
"""Silence (s) that counts as a lost link here: a busy machine is no failure."""


class Jointed:
    """The mock controller's program, in the namespace of a fleet."""

    def __init__(self, folder: Path, namespace: str, poses: Path) -> None:
        self.record_path = folder / 'joints.jsonl'
        self.process = subprocess.Popen(
            [
                sys.executable, '-m', 'timely_llm_ros.nodes.tools.mock_joint_controller',
                '--poses', str(poses), '--robot', 'arm_1', '--namespace', namespace,
                '--record', str(self.record_path),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self._expect('ready')

    def command(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + '\n')
        self.process.stdin.flush()
        self._expect('ok')

    @property
    def events(self) -> list[dict[str, Any]]:
        return read_journal(self.record_path)

    @property
    def moves(self) -> list[dict[str, float]]:
        return [event['goal'] for event in self.events if event['event'] == 'move']

    @property
    def last_move(self) -> dict[str, Any]:
        return [event for event in self.events if event['event'] == 'move'][-1]

    def wait_still(self) -> None:
        def still() -> bool:
            kinds = [e['event'] for e in self.events if e['event'] in ('move', 'still')]
            return bool(kinds[-1] == 'still')

        wait_for(still, 'standing still')

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)

    def _expect(self, word: str) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(word), line


@pytest.fixture(scope='module')
def arms(
    client: Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Fleet, Jointed, MockIndy]]:
    """A fleet of one arm of either kind, driven by one executor without a planner."""
    folder = tmp_path_factory.mktemp('arms')
    skills, poses, drivers = (folder / name for name in ('jointed.yaml', 'poses.yaml', 'arms.yaml'))
    skills.write_text(JOINTED_YAML, encoding='utf-8')
    poses.write_text(JOINTED_POSES, encoding='utf-8')
    indy = MockIndy(folder, speed=4.0)
    content = {
        'arm_1': {
            'driver': 'trajectory',
            'poses_file': str(poses),
            'speed': 0.6,
            'state_limit_s': PATIENT_S,
        },
        'arm_2': {
            'driver': 'indy',
            'host': indy.host,
            'answer_limit_s': PATIENT_S / 4,
            'link_limit_s': PATIENT_S,
        },
    }
    drivers.write_text(yaml.safe_dump(content), encoding='utf-8')
    namespace_of: list[Jointed] = []

    class ArmFleet(Fleet):
        def start_executor(self, robots: list[str]) -> Any:
            namespace_of.append(Jointed(folder, self.namespace, poses))
            return super().start_executor(robots)

    fleet = ArmFleet(
        client,
        folder,
        robots={'arm_1': str(skills), 'arm_2': 'arm'},
        start_planner=False,
        executor={
            'drivers_file': str(drivers),
            'planner_timeout_s': 0.0,
            'timeout_margin_s': 60.0,
        },
    )
    fleet.robots['arm_1'] = 'jointed'
    fleet.wait_ready()
    (jointed,) = namespace_of
    yield fleet, jointed, indy
    fleet.close()
    jointed.close()
    indy.close()


def run(fleet: Fleet, robot: str, text: str) -> ExecuteSegment.Result:
    scene = [SceneObject(name='cup_1', kind='cup', support='floor')]
    return fleet.segment(robot, text=text, objects=scene).result()[1]


def test_an_arm_under_ros2_control_goes_through_its_poses(
    arms: tuple[Fleet, Jointed, MockIndy],
) -> None:
    fleet, jointed, _ = arms
    before = len(jointed.moves)
    result = run(fleet, 'arm_1', 'pick(cup_1);home;')
    assert result.error_code == SegmentCode.NONE, result.error_msg
    assert len(jointed.moves) == before + 5
    assert jointed.moves[-1] == JOINTED_HOME
    jointed.wait_still()


def test_a_dropped_trajectory_fails_the_segment_and_says_so(
    arms: tuple[Fleet, Jointed, MockIndy],
) -> None:
    fleet, jointed, _ = arms
    jointed.command('drop')
    result = run(fleet, 'arm_1', 'pick(cup_1);')
    jointed.command('take')
    assert result.error_code == SegmentCode.SKILL_FAILED
    assert 'may have refused the trajectory' in result.error_msg


def test_an_indy_does_its_skills_and_says_what_it_refuses(
    arms: tuple[Fleet, Jointed, MockIndy],
) -> None:
    fleet, _, indy = arms
    result = run(fleet, 'arm_2', 'move_to(40,0,20);home;')
    assert result.error_code == SegmentCode.NONE, result.error_msg
    assert [event['event'] for event in indy.record].count('move') == 2
    indy.command('refuse joint 5 overheated')
    result = run(fleet, 'arm_2', 'move_to(40,0,20);')
    assert result.error_code == SegmentCode.SKILL_FAILED
    assert 'joint 5 overheated' in result.error_msg


def test_a_killed_executor_leaves_no_arm_moving(arms: tuple[Fleet, Jointed, MockIndy]) -> None:
    """Its guard stops both; the SDK's process has stopped the Indy before that."""
    fleet, jointed, indy = arms
    moves, events = len(jointed.moves), len(indy.record)
    scene = [SceneObject(name='cup_1', kind='cup', support='floor')]
    fleet.segment('arm_1', text='repeat(9){pick(cup_1);};', objects=scene)
    fleet.segment('arm_2', text='repeat(10){move_to(40,-40,40);move_to(40,40,10);};')
    wait_for(lambda: len(jointed.moves) > moves, 'arm_1 moves')
    wait_for(lambda: 'move' in [e['event'] for e in indy.record[events:]], 'arm_2 moves')
    executor = fleet.executors[0]
    os.kill(executor.children[0], signal.SIGKILL)
    executor.wait()
    assert 'safe action issued' in executor.output
    # It may stand still between two motions, so the hold is waited for; nobody goes on after it.
    wait_for(lambda: jointed.last_move['duration_s'] == HOLD_S, 'arm_1 is told to hold')
    jointed.wait_still()
    wait_for(lambda: indy.stands_still, 'arm_2 stands still')
    assert 'stop' in [event['event'] for event in indy.record[events:]]
    assert jointed.last_move['duration_s'] == HOLD_S
