"""Compares a recorded run with its replays, and says how far the replays can be trusted."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lrtrace.statistics import figures, mean_or_nan, percentile

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lrtrace.run import Run


@dataclass(frozen=True, slots=True)
class Outcome:
    """Figures of the compared tasks of one run. Times in s; NaN where no task has one.

    Attributes:
        label: What tables call the run.
        tasks: How many tasks are compared.
        response_s: Mean response time of those whose robot started.
        response_median_s: Its median.
        response_p95_s: Below which 95 % of them lie.
        waiting_s: Mean waiting time of those that succeeded.
        utility: Mean achieved utility.
        late: Tasks whose robot started after the expected response time or never.
        failed: Tasks that did not succeed.
    """

    label: str
    tasks: int
    response_s: float
    response_median_s: float
    response_p95_s: float
    waiting_s: float
    utility: float
    late: int
    failed: int

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON, which has no NaN: None in its place."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in asdict(self).items()
        }


@dataclass(frozen=True, slots=True)
class ModelError:
    """How far the replay of a run as it was is from what was recorded, task by task.

    Attributes:
        tasks: How many tasks it is made of.
        response_bias_s: Mean of replayed minus recorded response time (s).
        response_mean_s: Mean absolute error of the response time (s).
        response_p95_s: Below which 95 % of those errors lie (s).
        response_worst_s: The largest of them (s).
        waiting_mean_s: Mean absolute error of the waiting time (s).
        utility_bias: Mean of replayed minus recorded utility.
    """

    tasks: int
    response_bias_s: float
    response_mean_s: float
    response_p95_s: float
    response_worst_s: float
    waiting_mean_s: float
    utility_bias: float

    def __str__(self) -> str:
        return (
            f'response {self.response_mean_s:.3f} s off on average (95 %: within '
            f'{self.response_p95_s:.3f} s; bias {self.response_bias_s:+.3f} s), waiting '
            f'{self.waiting_mean_s:.3f} s, utility {self.utility_bias:+.3f}'
        )


def outcome(run: Run, plan_ids: Collection[str], label: str = '') -> Outcome:
    """Return the figures of these tasks of a run; ``label`` replaces the run's own."""
    tasks = [task for task in run.tasks if task.plan_id in plan_ids]
    found = figures(tasks)
    return Outcome(
        label or run.label,
        found.tasks,
        mean_or_nan(found.responses_s),
        found.median_response_s,
        percentile(found.responses_s, 0.95),
        mean_or_nan(found.waitings_s),
        mean_or_nan(task.utility for task in tasks),
        found.late,
        found.tasks - found.succeeded,
    )


def model_error(recorded: Run, again: Run, plan_ids: Collection[str]) -> ModelError | None:
    """Return how far a replay of a run as it was is off; None if no task succeeded in both."""
    by_id = {task.plan_id: task for task in again.tasks}
    pairs = [
        (task, by_id[task.plan_id])
        for task in recorded.tasks
        if task.plan_id in plan_ids
        and task.plan_id in by_id
        and task.succeeded
        and by_id[task.plan_id].succeeded
    ]
    off_s = [(new.response_s or 0.0) - (old.response_s or 0.0) for old, new in pairs]
    if not off_s:
        return None
    sizes_s = [abs(value) for value in off_s]
    return ModelError(
        len(off_s),
        fmean(off_s),
        fmean(sizes_s),
        percentile(sizes_s, 0.95),
        max(sizes_s),
        fmean(abs(new.waiting_s - old.waiting_s) for old, new in pairs),
        fmean(new.utility - old.utility for old, new in pairs),
    )


_COLUMNS: Mapping[str, tuple[str, str]] = {
    'response_s': ('response mean', '.3f'),
    'response_median_s': ('median', '.3f'),
    'response_p95_s': ('95 %', '.3f'),
    'waiting_s': ('waiting', '.3f'),
    'utility': ('utility', '.3f'),
    'late': ('late', 'd'),
    'failed': ('failed', 'd'),
}


def table(recorded: Outcome, replays: Collection[Outcome]) -> str:
    """Return a table: the recorded run, then its replays, each with its differences to it."""
    rows = [['', *(title for title, _ in _COLUMNS.values())]]
    rows.append([recorded.label, *(_cell(recorded, name) for name in _COLUMNS)])
    for replay in replays:
        cells = [
            f'{_cell(replay, name)} {_difference(recorded, replay, name)}' for name in _COLUMNS
        ]
        rows.append([replay.label, *cells])
    # Numbers stand below each other: the recorded run has no difference.
    rows[1][1:] = [
        f'{cell} {"" if len(rows) < 3 else " " * _width(rows, place)}'
        for place, cell in enumerate(rows[1][1:], 1)
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = [
        '  '.join(
            [row[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        ).rstrip()
        for row in rows
    ]
    return '\n'.join(lines)


def _width(rows: list[list[str]], place: int) -> int:
    return max(len(row[place].rpartition(' ')[2]) for row in rows[2:])


def _cell(outcome: Outcome, name: str) -> str:
    value = getattr(outcome, name)
    return format(value, _COLUMNS[name][1]) if math.isfinite(value) else '-'


def _difference(recorded: Outcome, replay: Outcome, name: str) -> str:
    difference = getattr(replay, name) - getattr(recorded, name)
    if not math.isfinite(difference):
        return '(-)'
    if isinstance(difference, float):
        # As many digits as are shown, and no negative zero.
        difference = round(difference, 3) + 0.0
    return f'({difference:+{_COLUMNS[name][1]}})'
