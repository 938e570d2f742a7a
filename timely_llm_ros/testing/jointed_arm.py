"""A small arm for tests of the trajectory driver: its skill set, its poses file, its joints."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from timely_llm_ros.drivers.trajectory import JointReading
from timely_llm_ros.drivers.trajectory.mock import JointBody
from timely_llm_ros.skills.loading import parse_skill_set

if TYPE_CHECKING:
    from collections.abc import Mapping

JOINTED_YAML = """
name: jointed
description: an arm of three joints between fixed places
safe_action: stop
skills:
  pick:
    description: pick up the object
    arguments: {target: {kind: object}}
    duration: {model: constant, seconds: 3.0}
  look_at:
    description: can the object be seen
    arguments: {target: {kind: object}}
    blocking: true
    returns: bool
    duration: {model: constant, seconds: 1.0}
  home: {description: go to rest pose, duration: {model: constant, seconds: 2.0}}
  stop: {description: stop all motion, duration: {model: constant, seconds: 0.3}}
"""
"""A skill set for an arm of three joints, as its file."""

JOINTED_POSES = """
joints:
  base: {max_velocity: 2.0, lower: -3.0, upper: 3.0}
  elbow: {max_velocity: 1.0, max_acceleration: 4.0}
  finger: {max_velocity: 0.1, lower: 0.0, upper: 0.04}
poses:
  home: [0.0, 0.5, 0.04]
  over_cup_1: {base: 1.0, elbow: 0.2}
  at_cup_1: {elbow: 0.6}
  closed: {finger: 0.01}
skills:
  pick: ['over_{target}', 'at_{target}', closed, 'over_{target}']
  look_at: ['over_{target}']
"""
"""The poses of that arm, as the file that the trajectory driver reads."""

JOINTED_SKILLS = parse_skill_set(JOINTED_YAML)
"""That skill set, read."""

JOINTED_HOME = {'base': 0.0, 'elbow': 0.5, 'finger': 0.04}
"""Where its joints are at first (rad, m)."""


class LocalJoints:
    """The joints of an arm in this process, to be given to ``create_driver(..., joints=...)``.

    They move on the clock of the running loop, and are read fifty times a second.

    Attributes:
        record: What the arm's body was told and what it did, in order.
        body: The body, at first at ``JOINTED_HOME``.
        has_controller: Whether there is a controller that takes commands.
        silent: Whether the joints' states have stopped coming.
        velocities: Whether the states tell speeds too.
    """

    def __init__(self) -> None:
        self.record: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        self.body = JointBody(JOINTED_HOME, self.record.append, clock=loop.time)
        self.has_controller = True
        self.silent = False
        self.velocities = True
        self._readings: dict[str, JointReading] = {}

    @property
    def readings(self) -> Mapping[str, JointReading]:
        """The newest reading of each joint."""
        return self._readings

    @property
    def moves(self) -> list[dict[str, float]]:
        """The goals that the arm was sent to, in order."""
        return [event['goal'] for event in self.record if event['event'] == 'move']

    async def open(self) -> None:
        """Read the joints once."""
        self.read()

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    def command(self, positions: Mapping[str, float], duration_s: float) -> None:
        """Send the arm to positions."""
        self.body.follow(list(positions), list(positions.values()), duration_s)

    async def heard(self, limit_s: float) -> None:
        """Return once there is a new reading, or after ``limit_s``."""
        await asyncio.sleep(min(limit_s, 0.02))
        self.read()

    def read(self) -> None:
        """Read every joint, unless the arm is silent."""
        if self.silent:
            return
        positions, speeds = self.body.joints()
        now_s = asyncio.get_running_loop().time()
        for name, position in positions.items():
            speed = speeds[name] if self.velocities else 0.0
            self._readings[name] = JointReading(position, speed, now_s)
