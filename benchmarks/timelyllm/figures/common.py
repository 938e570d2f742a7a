"""What several experiments share: the ways to serve, their tables and their colours."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.timelyllm.comparison import Summary, lookahead, paper, stream, whole_plan
from benchmarks.timelyllm.figures.experiment import Table
from benchmarks.timelyllm.figures.runs import Best, Runs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.workloads import System

CAPS = (2, 4, 6, 8, 12, 16)
"""Largest batches that every baseline is tried at."""

WHOLE_PLAN, STREAM, TIMELY, OURS = 'whole plan (vLLM)', 'stream', 'TimelyLLM', 'lookahead (ours)'
FCFS, EDF = 'segmented fcfs', 'segmented edf'

COLOURS = {
    WHOLE_PLAN: '#8c8c8c',
    STREAM: '#d9a441',
    TIMELY: '#3b6fb6',
    OURS: '#2a9d6f',
    FCFS: '#8c8c8c',
    EDF: '#d9a441',
}


def contenders(runs: Runs, workload: str, caps: tuple[int, ...] = CAPS) -> list[Best]:
    """Serve a workload the paper's three ways, each at its best batch, and our own way."""
    return [
        runs.best(WHOLE_PLAN, whole_plan, caps, workload),
        runs.best(STREAM, stream, caps, workload),
        runs.best(TIMELY, timely, caps, workload),
        ours(runs, workload),
    ]


def timely(cap: int) -> System:
    """Return the paper's way at a largest batch."""
    return paper('utility', cap)


def ours(runs: Runs, workload: str) -> Best:
    """Serve a workload our own way, which chooses the batch itself."""
    return Best(OURS, None, runs.serve(lookahead(), workload))


def summary_table(title: str, items: Iterable[tuple[str, Summary]]) -> Table:
    """Return a table of utility (share of the peak), response and waiting of each group."""
    chosen = list(items)
    groups = list(dict.fromkeys(name for _, summary in chosen for name in summary.groups))
    headers = ['system']
    for group in groups:
        headers += [f'U {group}', f'R {group} (s)', f'W {group} (s)']
    rows = []
    for label, summary in chosen:
        cells = [label]
        for group in groups:
            part = summary.groups[group]
            cells += [f'{part.utility:.3f}', f'{part.response_s:.3f}', f'{part.waiting_s:.3f}']
        rows.append((*cells, f'{summary.utility:.3f} ({summary.spread:.3f})'))
    return Table(title, (*headers, 'mean U (sd)'), tuple(rows))


def figures_of(workload: str, items: Iterable[Best]) -> list[dict[str, Any]]:
    """Return everything for the JSON file."""
    return [
        {
            'workload': workload,
            'system': item.label,
            'batch': item.cap,
            'groups': asdict(item.found.groups),
            'kinds': asdict(item.found.kinds),
        }
        for item in items
    ]
