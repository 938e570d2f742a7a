"""Response times of the planner's tasks by class: the skill set and what they expect."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timely_llm_ros.planner import Task

BOUNDS_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Responses are counted by the first of these (s) that they do not exceed."""

MOST_CLASSES = 16
"""So many classes are told apart, because a client chooses what it expects."""

OTHERS = ('others', '')


@dataclass(slots=True)
class ClassTimes:
    """Responses of one class; ``counts`` has one more entry than there are bounds."""

    in_time: int = 0
    total_s: float = 0.0
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))


class ResponseTimes:
    """Response times by (skill set, expected response time in s)."""

    def __init__(self) -> None:
        self._classes: dict[tuple[str, str], ClassTimes] = {}

    def __iter__(self) -> Iterator[tuple[tuple[str, str], ClassTimes]]:
        return iter(self._classes.items())

    def add(self, task: Task, response_s: float) -> bool:
        """Count a response; return whether it was in time."""
        expected_s = task.utility.expected_response_s
        key = task.skill_set, f'{expected_s:g}'
        if key not in self._classes and len(self._classes) >= MOST_CLASSES:
            key = OTHERS
        one = self._classes.setdefault(key, ClassTimes())
        in_time = response_s <= expected_s
        one.in_time += in_time
        one.total_s += response_s
        one.counts[bisect_left(BOUNDS_S, response_s)] += 1
        return in_time
