"""A small arm for the trajectory driver's tests: its skill set, its poses file, its joints."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from timely_llm_ros.drivers.trajectory import JointReading
from timely_llm_ros.drivers.trajectory.mock import JointBody
from timely_llm_ros.skills.loading import parse_skill_set

if TYPE_CHECKING:
    from collections.abc import Mapping

JOINTED = """
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

POSES = """
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

SKILLS = parse_skill_set(JOINTED)
HOME = {'base': 0.0, 'elbow': 0.5, 'finger': 0.04}


class LocalJoints:
    """Joints of this process on the loop's clock, read fifty times a second."""

    def __init__(self, **positions: float) -> None:
        self.record: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        self.body = JointBody({**HOME, **positions}, self.record.append, clock=loop.time)
        self.has_controller = True
        self.silent = False
        self.velocities = True
        self._readings: dict[str, JointReading] = {}

    @property
    def readings(self) -> Mapping[str, JointReading]:
        return self._readings

    @property
    def moves(self) -> list[dict[str, float]]:
        return [event['goal'] for event in self.record if event['event'] == 'move']

    async def open(self) -> None:
        self.read()

    async def close(self) -> None:
        pass

    def command(self, positions: Mapping[str, float], duration_s: float) -> None:
        self.body.follow(list(positions), list(positions.values()), duration_s)

    async def heard(self, limit_s: float) -> None:
        await asyncio.sleep(min(limit_s, 0.02))
        self.read()

    def read(self) -> None:
        if self.silent:
            return
        positions, speeds = self.body.joints()
        now_s = asyncio.get_running_loop().time()
        for name, position in positions.items():
            speed = speeds[name] if self.velocities else 0.0
            self._readings[name] = JointReading(position, speed, now_s)
