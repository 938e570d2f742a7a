"""Bodies in a world with physics: real drivers move drones and arms in it, and it judges tasks."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from timely_llm_ros.demo.bodies import ROS_BODIES, Bodies, ros_entry, tello_entry
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from timely_llm_ros.demo.workload import Robot, TimedTask
    from timely_llm_ros.skills import Scene

WORLD = 'world'
"""Name of the world's program."""

NEEDED = {'mujoco': 'timely_llm_ros[world]', 'djitellopy': 'timely_llm_ros[tello]'}
"""What has to be installed, and the extra that brings it."""


def require_world() -> None:
    """Check that what a world needs is installed.

    Raises:
        ConfigurationError: Something is not.
    """
    for package, extra in NEEDED.items():
        if importlib.util.find_spec(package) is None:
            raise ConfigurationError(
                f"drivers 'world': expected {package} to be installed "
                f"(make setup, or pip install '{extra}')"
            )


def room_makers() -> dict[str, Callable[[Scene], Scene]]:
    """Return by skill set how a scene is laid out for robots that have a body in the world.

    Arms have one where the types of MoveIt's actions are installed.

    Raises:
        ConfigurationError: What a world needs is not installed.
    """
    require_world()
    from timely_llm_ros.world import arrange, arrange_table

    found: dict[str, Callable[[Scene], Scene]] = {'tello': arrange}
    if all(importlib.util.find_spec(package) for package in ROS_BODIES['arm'][1]):
        found['arm'] = arrange_table
    return found


@dataclass(frozen=True)
class WorldBodies(Bodies):
    """Robots of a world; those without a room in it are simulated by the time that skills take.

    Attributes:
        robots: The fleet.
        folder: Where the drivers' options, the world and what happens in it are written.
        rooms: What is around each robot.
        seed: Of the world.
        row: First three bytes of the drones' addresses.

    Raises:
        ConfigurationError: Something that it needs is not installed.
    """

    robots: tuple[Robot, ...]
    folder: Path
    rooms: Mapping[Robot, Scene]
    seed: int = 0
    row: str = field(
        default_factory=lambda: f'127.{random.randrange(16, 250)}.{random.randrange(256)}'
    )
    commanded = True

    def __post_init__(self) -> None:
        require_world()
        from timely_llm_ros.world import Bay, write_bays

        entries = {
            robot.name: tello_entry(f'{self.row}.{number}', f'{self.row}.1', perception='topic')
            for number, robot in enumerate(self._drones, 2)
        }
        entries |= {
            robot.name: ros_entry(robot.skill_set, perception='topic') for robot in self._arms
        }
        # JSON is YAML.
        self._drivers.write_text(json.dumps(entries, indent=1), encoding='utf-8')
        bays = [
            Bay(robot.name, scene, 'arm' if robot in self._arms else 'drone')
            for robot, scene in self.rooms.items()
        ]
        write_bays(self._bays, bays)

    @property
    def note(self) -> str:
        """What a trace says that the robots are."""
        parts = {
            'drones of a world with physics behind the Tello driver': self._drones,
            'arms of it behind the driver ros, as under MoveIt': self._arms,
            'simulated': [robot for robot in self.robots if robot not in self.rooms],
        }
        return '; '.join(
            f'{what}: {", ".join(robot.name for robot in robots)}'
            for what, robots in parts.items()
            if robots
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of every executor."""
        # A drone that an urgent task led upwards takes longer to land than one that stayed low.
        return {'drivers_file': str(self._drivers), 'timeout_margin_s': 15.0}

    @property
    def recorded_topics(self) -> Sequence[str]:
        """Topics that the trace has beside those of the fleet."""
        return ('/world_events', '/world_markers', '*/pose', '*/detections')

    def commands(self) -> Sequence[tuple[str, list[str]]]:
        """Return the program of the world."""
        command = [
            sys.executable, '-m', 'timely_llm_ros.world', '--bays', str(self._bays),
            '--row', self.row, '--seed', str(self.seed),
        ]  # fmt: skip
        return [(WORLD, command)]

    def groups(self, robots: Sequence[Robot]) -> Sequence[tuple[str, Sequence[Robot]]]:
        """Return one executor for all drones, which share two ports, and one for each other."""
        drones = [robot for robot in robots if robot in self._drones]
        others = [robot for robot in robots if robot not in self._drones]
        return [('drones', drones), *((robot.name, (robot,)) for robot in others)]

    def judged(self, task: TimedTask) -> dict[str, Any] | None:
        """Return what the world has to know of a task to judge it; None where it cannot."""
        from timely_llm_ros.world import WorldTask

        if task.robot not in {robot.name for robot in self.rooms} or task.impossible:
            return None
        return asdict(WorldTask.of(task.key, task.robot, task.sample))

    @property
    def _drones(self) -> list[Robot]:
        return [robot for robot in self.rooms if robot.skill_set == 'tello']

    @property
    def _arms(self) -> list[Robot]:
        return [robot for robot in self.rooms if robot.skill_set == 'arm']

    @property
    def _drivers(self) -> Path:
        return self.folder / 'drivers.yaml'

    @property
    def _bays(self) -> Path:
        return self.folder / 'bays.json'
