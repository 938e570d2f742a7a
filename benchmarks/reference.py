"""Repeats an independent simulation of TimelyLLM with the real planner on virtual time.

    .venv/bin/python benchmarks/reference.py [--seeds 20] [--processes 1]
        [--hardware toy ...] [--workloads wid1 ...]

Each row of ``_reference.py`` is served by the system of that name; 20 seeds, as there.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from _reference import CAPS, ROWS
from _results import Target, save

from lrtrace.comparison import (
    compare,
    paper,
    paper_admission,
    stream,
    table,
    whole_plan,
)
from lrtrace.workload import WORKLOADS

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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument('--seeds', type=int, default=20)
    parser.add_argument('--processes', type=int, default=1)
    parser.add_argument('--hardware', nargs='+', default=['toy', 'toy_uncached'])
    parser.add_argument('--workloads', nargs='+', choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument('--json')
    options = parser.parse_args()
    figures, targets = [], []
    for hardware in options.hardware:
        for workload in options.workloads:
            rows = [row for row in ROWS if (row.workload, row.hardware) == (workload, hardware)]
            caps = CAPS[workload] if hardware == 'toy' else {}
            names = dict.fromkeys([row.system for row in rows] + list(caps))
            found = compare(
                [SYSTEMS[name] for name in names],
                workload,
                seeds=range(options.seeds),
                hardware=hardware,
                processes=options.processes,
            )
            print(f'\n{workload}, {hardware}, {options.seeds} seeds')
            print(table(found), flush=True)
            for name, summary in found.items():
                figures.append(
                    {'workload': workload, 'hardware': hardware, 'system': name, **asdict(summary)}
                )
            wanted = {row.system: row.utility for row in rows} | caps
            for name, utility in wanted.items():
                difference = abs(found[name].utility - utility)
                # Overloaded where draws differ much.
                calm = hardware == 'toy' and found[name].spread <= 0.1
                bound = 0.05 if calm else 0.3 * abs(utility)
                label = f'{workload} {hardware} {name}: mean utility off {utility:g} by'
                targets.append(Target(label, difference, '<=', bound))
    save('reference', figures, targets, path=options.json)


if __name__ == '__main__':
    main()
