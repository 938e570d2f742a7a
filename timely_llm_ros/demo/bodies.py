"""What stands in for the bodies of the demo's robots: the simulated driver, or mock robots."""

from __future__ import annotations

import importlib.util
import json
import math
import random
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from timely_llm_ros.drivers.indy import sdk_python
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.skills import Scene

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from timely_llm_ros.demo.workload import Robot, TimedTask
    from timely_llm_ros.skills import SceneObject

CEILING_M = 20.0
"""Height of the room of the mock aircraft (m): tasks of the demo climb, one after the other."""

LINK_TIMEOUT_S = 5.0
"""Silence of a mock that counts as its loss (s): a laptop does everything at once here."""

TABLE_M = (0.35, 0.65)
"""Least and greatest distance of an object from an arm's base (m), so that it can be grasped."""


ROS_BODIES: dict[str, tuple[str, tuple[str, ...], float]] = {
    'tello': ('aerostack2', ('as2_msgs',), 2.0),
    'rover': ('rover', ('nav2_msgs',), 3.0),
    'arm': ('moveit', ('moveit_msgs', 'control_msgs'), 0.6),
}
"""By skill set: the calls file of a robot with ROS interfaces, the packages with their types, and
how long its mock takes for a goal (s)."""


class Bodies:
    """Simulated bodies: an executor for each robot, and no program beside it."""

    commanded = False
    """Whether the programs beside take commands, and end with their input."""

    @property
    def note(self) -> str:
        """What a trace says that the robots are."""
        return 'simulated: skills take the time that their duration models say'

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of every executor."""
        return {}

    def commands(self) -> Sequence[tuple[str, list[str]]]:
        """Return the programs that are the bodies, by name."""
        return ()

    def groups(self, robots: Sequence[Robot]) -> Sequence[tuple[str, Sequence[Robot]]]:
        """Return the executors by name, with the robots that each of them hosts."""
        return [(robot.name, (robot,)) for robot in robots]

    @property
    def recorded_topics(self) -> Sequence[str]:
        """Topics that the trace has beside those of the fleet."""
        return ()

    def fit(self, task: TimedTask) -> TimedTask:
        """Return a task as these bodies can do it."""
        return task

    def judged(self, task: TimedTask) -> dict[str, Any] | None:  # noqa: ARG002 (others judge)
        """Return what the bodies' world has to know of a task to judge it; None where none does."""
        return None


def tello_entry(address: str, local_address: str, *, perception: str) -> dict[str, Any]:
    """Return the options by which the Tello driver flies a drone of the demo."""
    return {
        'driver': 'tello',
        'address': address,
        'local_address': local_address,
        'perception': perception,
        # An urgent task takes it for granted that the robot flies.
        'takeoff_when_needed': True,
        'maximum_height_m': CEILING_M,
        'link_timeout_s': LINK_TIMEOUT_S,
        'halt_limit_s': 1.5,
    }


def ros_entry(skill_set: str, *, perception: str) -> dict[str, Any]:
    """Return the options by which the driver ``ros`` moves a robot of the demo."""
    return {
        'driver': 'ros',
        'calls_file': ROS_BODIES[skill_set][0],
        'perception': perception,
        'server_limit_s': 60.0,
        'answer_limit_s': LINK_TIMEOUT_S,
    }


@dataclass(frozen=True)
class MockBodies(Bodies):
    """Mock robots behind the real drivers, on addresses of this machine.

    Attributes:
        robots: The fleet; arms stay simulated where the SDK of theirs is not there.
        file: Where the drivers' options are written; the executors read them there.
    """

    robots: tuple[Robot, ...]
    file: Path
    row: str = field(
        default_factory=lambda: f'127.{random.randrange(16, 250)}.{random.randrange(256)}'
    )
    """First three bytes of the addresses."""

    def __post_init__(self) -> None:
        entries: dict[str, dict[str, Any]] = {
            robot.name: tello_entry(address, f'{self.row}.1', perception='simulated')
            for robot, address in self._tellos().items()
        }
        for robot, address in self._arms().items():
            entries[robot.name] = {
                'driver': 'indy',
                'host': address,
                'speed': 1.0,
                'perception': 'simulated',
                'answer_limit_s': 1.5,
                'link_limit_s': LINK_TIMEOUT_S,
            }
        # JSON is YAML.
        self.file.write_text(json.dumps(entries, indent=1), encoding='utf-8')

    @property
    def note(self) -> str:
        """What a trace says that the robots are."""
        mocked = [robot.name for robot in (*self._tellos(), *self._arms())]
        others = [robot.name for robot in self.robots if robot.name not in mocked]
        text = f'mocks behind the real drivers: {", ".join(mocked)}'
        return f'{text}; simulated: {", ".join(others)}' if others else text

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of every executor."""
        return {'drivers_file': str(self.file)}

    def commands(self) -> Sequence[tuple[str, list[str]]]:
        """Return the programs of the mocks."""
        tellos = [sys.executable, '-m', 'timely_llm_ros.drivers.tello.mock']
        for address in self._tellos().values():
            tellos += ['--host', address]
        arms = [
            (
                f'mock_{robot.name}',
                [sys.executable, '-m', 'timely_llm_ros.drivers.indy.mock', '--host', address],
            )
            for robot, address in self._arms().items()
        ]
        return [('mock_tellos', tellos), *arms] if self._tellos() else arms

    def groups(self, robots: Sequence[Robot]) -> Sequence[tuple[str, Sequence[Robot]]]:
        """Return one executor for all Tellos, which share two ports, and one for each other."""
        tellos = [robot for robot in robots if robot.skill_set == 'tello']
        others = [robot for robot in robots if robot.skill_set != 'tello']
        together = [('tellos', tellos)] if tellos else []
        return [*together, *((robot.name, (robot,)) for robot in others)]

    def _tellos(self) -> dict[Robot, str]:
        tellos = [robot for robot in self.robots if robot.skill_set == 'tello']
        return {robot: f'{self.row}.{number}' for number, robot in enumerate(tellos, 2)}

    def _arms(self) -> dict[Robot, str]:
        try:
            sdk_python()
        except ConfigurationError:
            return {}
        arms = [robot for robot in self.robots if robot.skill_set == 'arm']
        return {robot: f'{self.row}.{number}' for number, robot in enumerate(arms, 200)}

    def fit(self, task: TimedTask) -> TimedTask:
        """Return a task with what an arm handles laid on its table, where it is not."""
        if not any(robot.name == task.robot for robot in self._arms()):
            return task
        objects = tuple(map(_on_the_table, task.sample.scene.objects))
        return replace(task, sample=replace(task.sample, scene=Scene(objects)))


@dataclass(frozen=True)
class RosBodies(Bodies):
    """Mocks of what robots with ROS interfaces offer, behind the driver ``ros``.

    Attributes:
        robots: The fleet.
        file: Where the driver's options are written; the executors read them there.

    Raises:
        ConfigurationError: A package with types of theirs is not installed.
    """

    robots: tuple[Robot, ...]
    file: Path
    commanded = True

    def __post_init__(self) -> None:
        for robot in self.robots:
            for package in ROS_BODIES[robot.skill_set][1]:
                if importlib.util.find_spec(package) is None:
                    raise ConfigurationError(
                        f"drivers 'ros': expected {package} to be installed; in a checkout "
                        '`make demo ROBOTS=ros` builds the part of it that is used here'
                    )
        entries = {
            robot.name: ros_entry(robot.skill_set, perception='simulated') for robot in self.robots
        }
        # JSON is YAML.
        self.file.write_text(json.dumps(entries, indent=1), encoding='utf-8')

    @property
    def note(self) -> str:
        """What a trace says that the robots are."""
        names = ', '.join(f'{robot.name} ({self._calls(robot)})' for robot in self.robots)
        return f'mocks of ROS interfaces behind the driver ros: {names}'

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of every executor."""
        return {'drivers_file': str(self.file)}

    def commands(self) -> Sequence[tuple[str, list[str]]]:
        """Return the programs of the mocks."""
        program = [sys.executable, '-m', 'timely_llm_ros.nodes.tools.mock_servers']
        return [
            (
                f'mock_{robot.name}',
                [
                    *program, '--robot', robot.name, '--skill-set', robot.skill_set,
                    '--calls', self._calls(robot), '--seconds', str(ROS_BODIES[robot.skill_set][2]),
                ],
            )
            for robot in self.robots
        ]  # fmt: skip

    def _calls(self, robot: Robot) -> str:
        return ROS_BODIES[robot.skill_set][0]


def _on_the_table(item: SceneObject) -> SceneObject:
    """Return an object in the same direction, as far as it may be."""
    least_m, greatest_m = TABLE_M
    distance_m = math.hypot(item.x_m, item.y_m)
    wanted_m = min(max(distance_m, least_m), greatest_m)
    if distance_m == 0:
        return replace(item, x_m=wanted_m)
    scale = wanted_m / distance_m
    return replace(item, x_m=item.x_m * scale, y_m=item.y_m * scale)
