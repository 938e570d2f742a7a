"""Repeats an independent simulation of TimelyLLM with the real planner on virtual time.

    .venv/bin/python -m benchmarks.timelyllm.reference [--seeds 20] [--processes 1]
        [--hardware toy ...] [--workloads wid1 ...]

Each row of ``_reference.py`` is served by the system of that name; 20 seeds, as there. A row is
within the tolerance, or within it and two standard errors of the difference between two means of
20 draws (``by the errors``), or outside. What has the paper's scheduler also pays its overhead for
a generation that was fetched and found no place: ``toy_refusals``.
"""

from __future__ import annotations

import collections
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.common import COUNT, Target, arguments, save
from benchmarks.timelyllm.comparison import (
    compare,
    paper,
    paper_admission,
    stream,
    table,
    whole_plan,
)
from benchmarks.timelyllm.independent import CAPS, REFERENCE_DRAWS, ROWS
from benchmarks.workloads import WORKLOADS

if TYPE_CHECKING:
    from benchmarks.timelyllm.comparison import Summary

SYSTEMS = {
    system.name: system
    for system in (
        *(whole_plan(cap) for cap in (6, 12)),
        *(stream(cap) for cap in (6, 12)),
        paper_admission('printed'),
        paper_admission('feasible'),
        *(paper('utility', cap) for cap in (4, 6, 8, 12)),
        paper('fcfs', 6),
        paper('edf', 6),
    )
}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--seeds', type=COUNT, default=20)
    parser.add_argument('--processes', type=COUNT, default=1)
    parser.add_argument('--hardware', nargs='+', default=['toy', 'toy_uncached'])
    parser.add_argument('--workloads', nargs='+', choices=WORKLOADS, default=list(WORKLOADS))
    options = parser.parse_args()
    figures: list[dict[str, Any]] = []
    targets: list[Target] = []
    counts = collections.Counter[str]()
    for hardware in options.hardware:
        for workload in options.workloads:
            rows = [row for row in ROWS if (row.workload, row.hardware) == (workload, hardware)]
            caps = CAPS[workload] if hardware == 'toy' else {}
            names = dict.fromkeys([row.system for row in rows] + list(caps))
            found: dict[str, Summary] = {}
            for papers in (False, True):
                found |= compare(
                    [SYSTEMS[name] for name in names if name.startswith('paper') is papers],
                    workload,
                    seeds=range(options.seeds),
                    # vLLM does not look at the queue while its batch is full.
                    hardware=f'{hardware}_refusals' if papers else hardware,
                    processes=options.processes,
                    # There nobody waits for a robot.
                    from_free_robot=True,
                )
            print(f'\n{workload}, {hardware}, {options.seeds} seeds')
            print(table(found), flush=True)
            for name, summary in found.items():
                figures.append(
                    {'workload': workload, 'hardware': hardware, 'system': name, **asdict(summary)}
                )
            spreads = {row.system: row.spread for row in rows}
            wanted = {row.system: row.utility for row in rows} | caps
            print('\n| system | mean utility | expected | off by | tolerance | two errors | |')
            print('|---|---|---|---|---|---|---|')
            for name, utility in wanted.items():
                ours = found[name]
                off = abs(ours.utility - utility)
                allowed = tolerance(utility, ours.spread, hardware)
                error = sampling_error(ours.spread, spreads.get(name), options.seeds)
                verdict = 'within' if off <= allowed else 'by the errors'
                verdict = verdict if off <= allowed + error else '**outside**'
                counts[verdict] += 1
                print(
                    f'| {name} | {ours.utility:.3f} ({ours.spread:.3f}) | {utility:g} '
                    f'| {off:.3f} | {allowed:.3f} | {error:.3f} | {verdict} |',
                    flush=True,
                )
                label = f'{workload} {hardware} {name}: mean utility off {utility:g} by'
                targets.append(Target(label, off, '<=', allowed + error))
    print(f'\n{dict(counts)}')
    save('reference', {'verdicts': dict(counts), 'rows': figures}, targets, path=options.json)


def tolerance(utility: float, spread: float, hardware: str) -> float:
    """Return what the reference allows: 0.05 where calm, 30 % elsewhere (draws differ much)."""
    return 0.05 if hardware == 'toy' and spread <= 0.1 else 0.3 * abs(utility)


def sampling_error(spread: float, expected: float | None, draws: int) -> float:
    """Return two standard errors of the difference between our mean and the reference's.

    Args:
        spread: Standard deviation over our draws.
        expected: That over the reference's draws; None to take ours.
        draws: How many draws of ours there are.
    """
    theirs = spread if expected is None else expected
    return 2.0 * math.hypot(spread / math.sqrt(draws), theirs / math.sqrt(REFERENCE_DRAWS))


if __name__ == '__main__':
    main()
