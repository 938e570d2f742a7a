"""What admission could earn if it knew everything: who is taken is searched for, draw by draw.

    .venv/bin/python -m benchmarks.overload.hindsight [--loads 1 3 10 20] [--seeds 3]
        [--duration 8] [--tries 1000] [--robots 150]

The bound of ``make bench-overload`` is a linear program that no schedule may reach. Here is the
other side: a set of tasks to take, found by simulated annealing from the set that our way served,
on the same planner, scheduler, engine and robots, which serve that set alone. It is no bound, since
a longer search finds more; but what it earns can be earned, by whoever knows what will come.
"""

from __future__ import annotations

import random
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

from benchmarks.common import COUNT, POSITIVE, arguments, save
from benchmarks.overload.goodput_bound import greatest_goodput
from benchmarks.overload.overload import OURS, TAKES_ALL, ways
from benchmarks.overload.serving import goodput, overload, serve
from timely_llm_ros.engines.simulated import find_hardware

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.evaluation import Workload

MAX_RUNNING = 8

WIDTHS_S = (0.05, 0.2, 0.6)
"""A try changes tasks that come within one of these times."""

CHANGED = (1, 1, 2, 3, 4)
"""How many of them it takes or leaves instead."""

HEAT = 0.02
"""How much less a try may earn at first and be gone on with, in the mean (utility/s)."""


def search(
    workload: Workload, duration_s: float, tries: int, tried: Callable[[], object]
) -> tuple[float, float]:
    """Return what our way earns, and what the best set that was found does."""
    ours = ways(MAX_RUNNING)[OURS]
    taking = replace(ours, config=TAKES_ALL)
    outcomes = serve(workload, ours)
    first = {number for number, one in enumerate(outcomes) if not one.code}

    def earns(taken: set[int]) -> float:
        tasks = tuple(task for number, task in enumerate(workload.tasks) if number in taken)
        return goodput(serve(replace(workload, tasks=tasks), taking), duration_s)

    rng = random.Random(workload.seed)
    at_s = [task.at_s for task in workload.tasks]
    here, best = first, earns(first)
    value = best
    for number in range(tries):
        tried()
        begin_s, width_s = rng.uniform(0.0, duration_s), rng.choice(WIDTHS_S)
        near = [one for one, at in enumerate(at_s) if begin_s <= at < begin_s + width_s]
        if not near:
            continue
        other = here ^ set(rng.sample(near, min(len(near), rng.choice(CHANGED))))
        found = earns(other)
        if found >= value - rng.expovariate(1.0 / HEAT) * (1.0 - number / tries):
            here, value = other, found
        best = max(best, found)
    return goodput(outcomes, duration_s), best


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--loads', type=POSITIVE, nargs='+', default=[1.0, 3.0, 10.0, 20.0])
    parser.add_argument('--seeds', type=COUNT, default=3, help='draws (%(default)s)')
    parser.add_argument('--duration', type=POSITIVE, default=8.0, help='of each (s)')
    parser.add_argument('--tries', type=COUNT, default=1000, help='of each search (%(default)s)')
    parser.add_argument('--robots', type=COUNT, default=150)
    options = parser.parse_args()
    times, rows = find_hardware('toy').step_time, []
    with Progress(console=Console(stderr=True)) as progress:
        total = len(options.loads) * options.seeds * options.tries
        task = progress.add_task('sets of tasks tried', total=total)
        for load in options.loads:
            ours, found, bounds = [], [], []
            for seed in range(options.seeds):
                workload = overload(
                    load, robots=options.robots, duration_s=options.duration, seed=seed
                )
                earned, best = search(
                    workload, options.duration, options.tries, lambda: progress.advance(task)
                )
                ours.append(earned)
                found.append(best)
                bound = greatest_goodput(workload, times, MAX_RUNNING)
                bounds.append(bound / options.duration)
            rows.append(
                {
                    'load': load,
                    'ours': statistics.fmean(ours),
                    'hindsight': statistics.fmean(found),
                    'bound': statistics.fmean(bounds),
                }
            )
            print(
                f'load {load:g}: ours {rows[-1]["ours"]:.2f}, in hindsight '
                f'{rows[-1]["hindsight"]:.2f}, bound {rows[-1]["bound"]:.2f}',
                flush=True,
            )
    sizes = {'robots': options.robots, 'seeds': options.seeds, 'tries': options.tries}
    figures = {**sizes, 'duration_s': options.duration, 'rows': rows}
    save('overload_hindsight', figures, [], path=options.json)


if __name__ == '__main__':
    main()
