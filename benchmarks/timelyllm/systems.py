"""The ways to serve that the contention benchmark compares, and how it shows what came out."""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from benchmarks.common import Target, standard_error
from timely_llm_ros.scheduling import SchedulingOptions, ServingMode

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Way:
    """One way to serve.

    Attributes:
        name: What the table calls it.
        mode: The serving mode.
        policy: The policy.
        scheduling: Further options.
        ours: Whether it is this project's, so that it should be ahead.
    """

    name: str
    mode: ServingMode
    policy: str = 'fcfs'
    scheduling: SchedulingOptions = field(default_factory=SchedulingOptions)
    ours: bool = False

    @property
    def lent(self) -> bool:
        """Whether it differs from ours in its ranking only."""
        return self.mode == 'segmented' and self.scheduling.admission == 'lookahead'


WAYS = (
    Way('whole_plan', 'whole_plan'),
    Way('stream', 'stream'),
    Way('segmented fcfs', 'segmented', 'fcfs'),
    Way('segmented edf', 'segmented', 'edf'),
    Way('segmented utility', 'segmented', 'utility', ours=True),
    Way(
        'segmented least_loss, lookahead',
        'segmented',
        'least_loss',
        SchedulingOptions(),
        ours=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Served:
    """How one way fared at one largest batch.

    Attributes:
        way: Its name.
        batch: The largest batch.
        tasks: How many tasks succeeded.
        failed: How many did not.
        utility: Mean utility of all tasks; one that failed counts 0.
        urgent: The same of urgent tasks, as a share of their peak.
        normal: The same of normal ones.
        urgent_response_s: Mean response of urgent tasks (s).
        normal_response_s: The same of normal ones.
    """

    way: str
    batch: int
    tasks: int
    failed: int
    utility: float
    urgent: float
    normal: float
    urgent_response_s: float
    normal_response_s: float


MEANS = ('utility', 'urgent', 'normal', 'urgent_response_s', 'normal_response_s')
"""What is told of a way in the mean over draws."""


def best_of(served: list[Served]) -> dict[str, Served]:
    """Return each way at its own best batch."""
    best: dict[str, Served] = {}
    for one in served:
        if one.way not in best or one.utility > best[one.way].utility:
            best[one.way] = one
    return best


def show(served: list[Served], title: str) -> None:
    """Print the table."""
    table = Table(title=title)
    for head in ('way', 'batch', 'tasks', 'U urgent', 'U normal', 'mean U', 'R urgent', 'R normal'):
        table.add_column(head, justify='left' if head == 'way' else 'right')
    best = best_of(served).values()
    for one in served:
        table.add_row(
            one.way,
            str(one.batch),
            f'{one.tasks}' + (f' (+{one.failed} failed)' if one.failed else ''),
            f'{one.urgent:.3f}',
            f'{one.normal:.3f}',
            f'{one.utility:.3f}',
            f'{1000 * one.urgent_response_s:.1f} ms',
            f'{1000 * one.normal_response_s:.1f} ms',
            style='bold' if one in best else '',
        )
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def means(draws: Sequence[Sequence[Served]]) -> list[Served]:
    """Return each way at each batch in the mean over draws, its tasks all together."""
    return [
        replace(
            rows[0],
            **{name: sum(getattr(row, name) for row in rows) for name in ('tasks', 'failed')},
            **{name: statistics.fmean(getattr(row, name) for row in rows) for name in MEANS},
        )
        for rows in zip(*draws, strict=True)
    ]


def ahead(draws: Sequence[Sequence[Served]], one: Served, other: Served, of: str) -> list[float]:
    """Return by how much one way is ahead of another in a figure, draw by draw."""
    places = [next(i for i, row in enumerate(draws[0]) if _same(row, it)) for it in (one, other)]
    return [getattr(draw[places[0]], of) - getattr(draw[places[1]], of) for draw in draws]


def _same(one: Served, other: Served) -> bool:
    return (one.way, one.batch) == (other.way, other.batch)


def targets(draws: Sequence[Sequence[Served]], ways: Sequence[Way] = WAYS) -> list[Target]:
    """Return by how much ours is ahead of the best of the others, each at its own best batch."""
    best = best_of(means(draws))
    ours = [best[way.name] for way in ways if way.ours]
    leading = max(ours, key=lambda one: one.utility)
    made = []
    for lent, who in ((False, 'other systems'), (True, 'other rankings')):
        others = [best[way.name] for way in ways if way.lent == lent and not way.ours]
        for of, name in (('utility', 'mean utility'), ('urgent', "urgent utility's share")):
            nearest = max(others, key=lambda one: getattr(one, of))
            values = ahead(draws, leading, nearest, of)
            error = f', ±{standard_error(values):.3f}' if len(draws) > 1 else ''
            made.append(
                Target(
                    f'{leading.way}: {name} ahead of {who} ({nearest.way}{error})',
                    statistics.fmean(values),
                    '>=',
                    0.0,
                )
            )
    return made
