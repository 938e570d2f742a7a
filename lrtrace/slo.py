"""How well a fleet kept its times, day by day and class by class."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lrtrace.statistics import percentile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lrtrace.run import RecordedTask, Run


@dataclass(frozen=True, slots=True)
class DayOfClass:
    """The tasks of one class that came on one day (UTC) and ended.

    Attributes:
        day: The day on which they came, as ``2026-11-24``.
        skill_set: Their skill set.
        expected_response_s: The response time that they expected (s): the class is both.
        tasks: How many there were.
        in_time: How many responses came within the expected time. Who got none was not in time.
        succeeded: How many were executed to their end.
        median_s: Median response time (s); NaN where none responded.
        p99_s: The response time that 99 of 100 kept (s).
    """

    day: str
    skill_set: str
    expected_response_s: float
    tasks: int
    in_time: int
    succeeded: int
    median_s: float
    p99_s: float


def days_of_classes(runs: Iterable[Run]) -> list[DayOfClass]:
    """Return the figures of runs by day and class, in this order."""
    groups: dict[tuple[str, str, float], list[RecordedTask]] = defaultdict(list)
    for run in runs:
        for task in run.tasks:
            if task.ended_s is not None:
                day = _day(run, task.received_s)
                groups[day, task.skill_set, task.expected_response_s].append(task)
    found = []
    for (day, skill_set, expected_s), tasks in sorted(groups.items()):
        responses = [task.response_s for task in tasks if task.response_s is not None]
        found.append(
            DayOfClass(
                day,
                skill_set,
                expected_s,
                len(tasks),
                sum(not task.late for task in tasks),
                sum(task.succeeded for task in tasks),
                percentile(responses, 0.5),
                percentile(responses, 0.99),
            )
        )
    return found


def refused_by_day(runs: Iterable[Run]) -> Counter[str]:
    """Return how many goals were not taken, by day; they belong to no class."""
    return Counter(_day(run, task.at_s) for run in runs for task in run.refused)


def _day(run: Run, at_s: float) -> str:
    moment = datetime.datetime.fromtimestamp(run.start_ns / 1e9 + at_s, tz=datetime.UTC)
    return f'{moment:%Y-%m-%d}'
