"""Figures of a run and of each kind of task: percentiles, means, deadline misses."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lrtrace.run import RecordedTask, Run


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which ``share`` (0 to 1) of the values lie; NaN without values."""
    if not values:
        return math.nan
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median_or_nan(values: Iterable[float]) -> float:
    """Return the median, NaN without values."""
    found = list(values)
    return median(found) if found else math.nan


def mean_or_nan(values: Iterable[float]) -> float:
    """Return the mean, NaN without values."""
    found = list(values)
    return fmean(found) if found else math.nan


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of some tasks; NaN if no task has a value."""

    tasks: int
    succeeded: int
    urgent: bool
    """Whether every task is urgent."""

    responses_s: tuple[float, ...]
    """Response times of tasks whose robot started, in the order of acceptance."""

    waitings_s: tuple[float, ...]
    """Waiting times of tasks that succeeded."""

    mean_utility: float
    """Of tasks that ended, as is the mean of the highest utility that they could reach."""

    best_utility: float
    late: int
    first_generation_s: float
    """Median engine time of the first segment, and of the whole plan."""

    whole_generation_s: float
    first_tokens: float
    whole_tokens: float
    """Medians, too."""

    told_s: float
    """Median of the responses that clients were told to expect."""

    kept: float
    """Share of the promised responses that were kept."""

    parts_s: tuple[float, float, float, float]
    """Means of ``RecordedTask.response_parts_s``."""

    judged: int
    """How many a simulated world judged."""

    by_world: int
    """How many of those succeeded by its judgement."""

    @property
    def median_response_s(self) -> float:
        """Median response time."""
        return median_or_nan(self.responses_s)

    @property
    def median_waiting_s(self) -> float:
        """Median waiting time."""
        return median_or_nan(self.waitings_s)


def figures(tasks: Sequence[RecordedTask]) -> Figures:
    """Return the figures of some tasks."""
    ended = [task for task in tasks if task.ended_s is not None]
    done = [task for task in tasks if task.succeeded]
    firsts = [task.segments[0] for task in tasks if 0 in task.segments]
    generated = [
        [segment for segment in task.segments.values() if segment.generated_s is not None]
        for task in done
    ]
    parts = [part for task in tasks if (part := task.response_parts_s) is not None]
    verdicts = [task.world_verdict for task in tasks if task.world_verdict is not None]
    return Figures(
        tasks=len(tasks),
        succeeded=len(done),
        urgent=bool(tasks) and all(task.urgent for task in tasks),
        responses_s=tuple(task.response_s for task in tasks if task.response_s is not None),
        waitings_s=tuple(task.waiting_s for task in done),
        mean_utility=mean_or_nan(task.utility for task in ended),
        best_utility=mean_or_nan(task.peak for task in ended),
        late=sum(task.late for task in tasks),
        first_generation_s=median_or_nan(
            first.generation_s for first in firsts if first.generated_s is not None
        ),
        whole_generation_s=median_or_nan(
            sum(segment.generation_s for segment in segments) for segments in generated
        ),
        first_tokens=median_or_nan(first.tokens for first in firsts if first.tokens),
        whole_tokens=median_or_nan(task.tokens for task in done),
        told_s=median_or_nan(
            task.told_response_s for task in tasks if task.told_response_s is not None
        ),
        kept=mean_or_nan(
            task.response_s is not None and task.response_s <= task.promised_response_s
            for task in ended
            if task.promised_response_s is not None
        ),
        parts_s=(
            mean_or_nan(part[0] for part in parts),
            mean_or_nan(part[1] for part in parts),
            mean_or_nan(part[2] for part in parts),
            mean_or_nan(part[3] for part in parts),
        ),
        judged=len(verdicts),
        by_world=sum(verdict.succeeded for verdict in verdicts),
    )


def by_kind(run: Run) -> dict[str, Figures]:
    """Return the figures of each kind of task: urgent kinds first, then by name."""
    groups: dict[str, list[RecordedTask]] = defaultdict(list)
    for task in run.tasks:
        groups[task.kind].append(task)
    found = {kind: figures(tasks) for kind, tasks in groups.items()}
    return dict(sorted(found.items(), key=lambda item: (not item[1].urgent, item[0])))


def same_tasks(runs: Sequence[Run]) -> bool:
    """Tell whether every run had the same robots, instructions and time utilities."""
    contents = [
        sorted(
            (task.robot, task.instruction, task.expected_response_s, task.peak)
            for task in run.tasks
        )
        for run in runs
    ]
    return all(content == contents[0] for content in contents)
