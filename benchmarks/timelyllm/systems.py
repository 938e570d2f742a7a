"""The ways to serve that the contention benchmark compares, and how it shows what came out."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from benchmarks.common import Target
from timely_llm_ros.scheduling import SchedulingOptions, ServingMode


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


def targets(served: list[Served]) -> list[Target]:
    """Return by how much ours is ahead of the best of the others."""
    best = best_of(served)
    ours = [best[way.name] for way in WAYS if way.ours]
    others = [one for one in best.values() if one not in ours]
    leading = max(ours, key=lambda one: one.utility)
    return [
        Target(
            f'{leading.way}: mean utility ahead of all others by',
            leading.utility - max(one.utility for one in others),
            '>=',
            0.0,
        ),
        Target(
            f'{leading.way}: urgent utility (share of the peak) ahead of all others by',
            leading.urgent - max(one.urgent for one in others),
            '>=',
            0.0,
        ),
    ]
