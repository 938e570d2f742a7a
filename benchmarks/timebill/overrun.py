"""Which periodic jobs complete when some take longer than their budget (TimeBill, section 5.1).

A job is released every ``T`` seconds and should end before the next one. Under ``kill`` it is
stopped at ``T`` and its answer is lost; under ``skip_next`` it runs on, counts as completed, and
the jobs that are released before it ends never start. This is per robot: a late job of one robot
skips no job of another.

A job that is completed late has not met its deadline, so both rates are there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

JobEnd = Literal['on_time', 'late', 'killed', 'skipped']
"""How a job ends: by its deadline, after it, stopped at it, or not at all."""


@dataclass(frozen=True, slots=True)
class OverrunReport:
    """How a sequence of periodic jobs fared.

    Attributes:
        ends: How each job ended, in order of release.
        busy_s: Time spent on jobs (s), killed ones included.
    """

    ends: tuple[JobEnd, ...]
    busy_s: float

    @property
    def completed(self) -> tuple[bool, ...]:
        """Whether each job gave an answer, on time or late."""
        return tuple(end in ('on_time', 'late') for end in self.ends)

    @property
    def completion_rate(self) -> float:
        """Share of the jobs that gave an answer; the paper's completion rate."""
        return sum(self.completed) / len(self.ends)

    @property
    def on_time_rate(self) -> float:
        """Share of the jobs that met their deadline."""
        return self.ends.count('on_time') / len(self.ends)


def kill(times_s: Sequence[float], period_s: float) -> OverrunReport:
    """Return how jobs fare that are stopped when their period is over.

    A job that takes exactly the period is on time.

    Args:
        times_s: How long each job would take (s), in order of release.
        period_s: T, the period and each job's budget (s).

    Raises:
        ConfigurationError: No job, or a time out of range.
    """
    _check(times_s, period_s)
    ends: tuple[JobEnd, ...] = tuple(
        'on_time' if time_s <= period_s else 'killed' for time_s in times_s
    )
    return OverrunReport(ends, sum(min(time_s, period_s) for time_s in times_s))


def skip_next(times_s: Sequence[float], period_s: float) -> OverrunReport:
    """Return how jobs fare that run on, at the cost of those released meanwhile.

    Args:
        times_s: How long each job would take (s), in order of release.
        period_s: T, the period and each job's budget (s).

    Raises:
        ConfigurationError: No job, or a time out of range.
    """
    _check(times_s, period_s)
    ends: list[JobEnd] = []
    busy_s = 0.0
    while len(ends) < len(times_s):
        time_s = times_s[len(ends)]
        busy_s += time_s
        ends.append('on_time' if time_s <= period_s else 'late')
        skipped = min(skipped_jobs(time_s, period_s), len(times_s) - len(ends))
        ends.extend(['skipped'] * skipped)
    return OverrunReport(tuple(ends), busy_s)


def skipped_jobs(time_s: float, period_s: float) -> int:
    """Return how many releases lie strictly within a job of that time: ceil(t / T) - 1."""
    count = max(0, math.ceil(time_s / period_s) - 1)
    # The quotient may be rounded across a whole number: 1.1 / 0.1 is a little more than 11.
    while count and count * period_s >= time_s:
        count -= 1
    return count


def _check(times_s: Sequence[float], period_s: float) -> None:
    if not times_s:
        raise ConfigurationError('no jobs: expected at least one')
    if not (math.isfinite(period_s) and period_s > 0):
        raise ConfigurationError(f'period {period_s!r} s: expected a finite number above 0')
    for time_s in times_s:
        if not (math.isfinite(time_s) and time_s >= 0):
            raise ConfigurationError(f'job of {time_s!r} s: expected a finite number >= 0')
