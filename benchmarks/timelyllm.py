"""TimelyLLM's comparison on its workloads: every system, on simulated hardware, many draws.

    .venv/bin/python benchmarks/timelyllm.py [--seeds 20] [--workloads wid1 wid2 wid3]
        [--caps 4 6 8 12] [--hardware toy] [--processes 1]

Each baseline is served at every largest batch of --caps and shown at its own best one, as in
figs. 5, 8 and 9; the sweep itself is fig. 7. ``lookahead`` is this project's own way; it has no
batch to choose. U is a share of the peak.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from _results import Target, save

from lrtrace.comparison import Summary, compare, lookahead, paper, stream, table, whole_plan
from lrtrace.workload import WORKLOADS, compose
from timely_llm_ros.engines.step_time import find_hardware

BASELINES = {
    'whole_plan': whole_plan,
    'stream': stream,
    'paper fcfs': lambda cap: paper('fcfs', cap),
    'paper edf': lambda cap: paper('edf', cap),
    'paper utility': lambda cap: paper('utility', cap),
}


def upper_bound(workload: str, hardware: str, seeds: range) -> float:
    """Mean utility that no schedule can exceed, whatever it knows.

    The urgent tasks of one event come together, and the k-th of them to start acting has had k
    prompts computed after its arrival and its own first segment's tokens generated one by one.
    All other tasks count with their peak.
    """
    times = find_hardware(hardware).step_time
    total = count = 0.0
    for seed in seeds:
        drawn = compose(WORKLOADS[workload], seed)
        events: dict[float, int] = {}
        for task in drawn.tasks:
            count += 1
            utility = drawn.groups[task.group]
            if task.group != 'urgent':
                total += utility.peak
                continue
            place = events[task.at_s] = events.get(task.at_s, 0) + 1
            tokens_s = task.segments[0].tokens * times.decode_s
            total += utility.first(place * times.prefill_s + tokens_s + 0.008)
    return total / count


def targets_of(workload: str, best: dict[str, Summary], bound: float) -> list[Target]:
    ours, whole = best['lookahead'], best['whole_plan']
    targets = [
        Target(
            f'{workload}: mean utility ahead of the best baseline by',
            ours.utility
            - max(summary.utility for name, summary in best.items() if name != 'lookahead'),
            '>=',
            0.0,
        ),
        Target(f'{workload}: share of the upper bound', ours.utility / bound, '>=', 0.95),
    ]
    if workload == 'wid1':
        targets += [
            Target('wid1: urgent utility', ours.groups['urgent'].utility, '>=', 0.90),
            Target('wid1: normal utility', ours.groups['normal'].utility, '>=', 0.99),
        ]
    elif workload == 'wid2':
        targets.append(Target('wid2: mean utility', ours.utility, '>=', 1.21))
    else:
        less = 1 - ours.waiting_s / whole.waiting_s
        targets.append(Target('wid3: waiting less than whole_plan by', less, '>=', 0.90))
    return targets


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument('--seeds', type=int, default=20)
    parser.add_argument('--workloads', nargs='+', choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument('--caps', nargs='+', type=int, default=[4, 6, 8, 12])
    parser.add_argument('--hardware', default='toy')
    parser.add_argument('--processes', type=int, default=1)
    parser.add_argument('--json')
    options = parser.parse_args()
    seeds = range(options.seeds)
    figures, targets = [], []
    for workload in options.workloads:
        systems = {
            (name, cap): make(cap) for name, make in BASELINES.items() for cap in options.caps
        }
        found = compare(
            [*systems.values(), lookahead()],
            workload,
            seeds=seeds,
            hardware=options.hardware,
            processes=options.processes,
        )
        best: dict[str, Summary] = {}
        for name in BASELINES:
            mine = [found[systems[name, cap].name] for cap in options.caps]
            best[name] = max(mine, key=lambda summary: summary.utility)
        best['lookahead'] = found['lookahead']
        bound = upper_bound(workload, options.hardware, seeds)
        print(f'\n{workload}, {options.hardware}, {options.seeds} seeds; no schedule: {bound:.3f}')
        print(table(found))
        print('each at its best batch')
        print(table(best), flush=True)
        figures += [
            {'workload': workload, 'system': name, 'best': summary in best.values()}
            | asdict(summary)
            for name, summary in found.items()
        ]
        targets += targets_of(workload, best, bound)
    save('timelyllm', figures, targets, path=options.json)


if __name__ == '__main__':
    main()
