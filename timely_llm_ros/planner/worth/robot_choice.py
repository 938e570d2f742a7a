"""Which of several robots a task is worth most on, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_TOLD = 5
"""Robots that the reason names beside the chosen one."""


@dataclass(frozen=True, slots=True)
class RobotOutlook:
    """What one robot promises for a task.

    Attributes:
        robot: Its name.
        utility: What is expected of the task there.
        busy_s: How long the robot is expected to be busy with what it has (s).
        waiting: Tasks that it has.
        distance_m: How far what the task is about is from it (m); None where nobody knows.
    """

    robot: str
    utility: float
    busy_s: float
    waiting: int
    distance_m: float | None = None

    @property
    def rank(self) -> tuple[float, ...]:
        """Higher is better: who earns more, is free sooner, has less to do, is nearer."""
        far_m = math.inf if self.distance_m is None else self.distance_m
        return self.utility, -self.busy_s, -self.waiting, -far_m

    @property
    def text(self) -> str:
        """The same in words."""
        parts = [f'{self.robot}: expected utility {self.utility:.2f}']
        if self.waiting:
            parts.append(f'busy for {self.busy_s:.1f} s with {self.waiting} tasks')
        else:
            parts.append('free')
        if self.distance_m is not None:
            parts.append(f'{self.distance_m:.1f} m away')
        return ', '.join(parts)


def choose_robot(outlooks: Sequence[RobotOutlook]) -> tuple[str, str]:
    """Return the robot that earns most, the first of equals, and why.

    Args:
        outlooks: One at least.
    """
    best = max(outlooks, key=lambda one: one.rank)
    others = [one for one in outlooks if one is not best]
    told = '; '.join(one.text for one in (best, *others[:MOST_TOLD]))
    more = f'; {len(others) - MOST_TOLD} more' if len(others) > MOST_TOLD else ''
    return best.robot, told + more
