"""The tasks of an attacked fleet: plans by which a judge knows them again."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container, Mapping


class Plans:
    """Writes tasks whose every call is unlike all others of the robot, so that doubles show.

    Args:
        seed: Of the tasks.
        robots: Every robot with its skill set.
        flying: Those of them that have a mock Tello for a body.
    """

    def __init__(self, seed: int, robots: Mapping[str, str], flying: Container[str]) -> None:
        self._random = random.Random(f'{seed} plans')
        self._robots, self._flying = robots, flying
        times_ms = {robot: list(range(1000, 10000)) for robot in robots if robot not in flying}
        for values in times_ms.values():
            self._random.shuffle(values)
        self._times_ms = {robot: itertools.cycle(values) for robot, values in times_ms.items()}
        self._number = itertools.count(1)

    def next(self, robot: str) -> tuple[str, list[dict[str, Any]]]:
        """Return an instruction that is its own plan, and a scene."""
        if robot in self._flying:
            way_cm = self._random.randrange(30, 90)
            turn = self._random.choice(('turn_cw', 'turn_ccw'))
            angle = self._random.randrange(20, 180)
            calls = f'move_forward({way_cm});{turn}({angle});move_backward({way_cm});'
            return self._random.choice((f'takeoff;{calls}land;', f'{calls}delay(500);')), []
        length = self._random.randrange(2, 7)
        if self._robots[robot] == 'tello':
            return ''.join(f'delay({next(self._times_ms[robot])});' for _ in range(length)), []
        names = [f'thing_{next(self._number)}' for _ in range(length)]
        skill = self._random.choice(('pick({});', 'wipe({});', 'place({});'))
        scene = [
            {'name': name, 'kind': 'cup', 'x_m': 0.4, 'y_m': 0.1 * number, 'z_m': 0.0}
            for number, name in enumerate(names)
        ]
        return ''.join(map(skill.format, names)), scene
