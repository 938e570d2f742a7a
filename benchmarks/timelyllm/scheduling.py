"""How long choosing one step's generations takes, against the paper's algorithm written naively.

    .venv/bin/python -m benchmarks.timelyllm.scheduling [--json FILE]

Naively: every waiting generation is an object, all their priorities are computed again for each
free place, and the best one is taken. Times are the best of several runs, so that other programs
on the machine count as little as possible.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from benchmarks.common import Target, arguments, save
from benchmarks.timelyllm.printed import PAPER_US
from timely_llm_ros.scheduling import GenerationTable, SchedulingOptions, StepTimes
from timely_llm_ros.utility import NORMAL, URGENT, TimeUtility

SIZES = (1, 2, 4, 6, 8, 64, 512, 4096)
BATCH = 8


@dataclass
class Waiting:
    name: str
    arrival_s: float
    utility: TimeUtility
    generation_s: float

    def priority(self, now_s: float) -> float:
        waiting_s = now_s + self.generation_s - self.arrival_s
        slack_s = max(self.arrival_s + self.utility.expected_response_s - now_s, 0.001)
        return self.utility.first(waiting_s) / (self.generation_s * slack_s)


def drawn(count: int) -> list[Waiting]:
    rng = random.Random(count)
    return [
        Waiting(str(n), -2 * rng.random(), rng.choice([NORMAL, URGENT]), 0.05 + 0.1 * rng.random())
        for n in range(count)
    ]


def naive_us(count: int) -> float:
    everyone = drawn(count)

    def step(now_s: float) -> list[Waiting]:
        queue = list(everyone)
        chosen: list[Waiting] = []
        while queue and len(chosen) < BATCH:
            best = max(queue, key=lambda item: item.priority(now_s))
            queue.remove(best)
            chosen.append(best)
        return chosen

    return best_us(step, 5 if count > 100 else 300)


def ours_us(count: int, policy: str, options: SchedulingOptions) -> float:
    table, times = GenerationTable(), StepTimes()
    for batch in range(1, BATCH + 1):
        times.observe(batch, 0.0216 * (1 + 0.02 * batch))
    scheduler = options.scheduler(table, times, policy=policy, max_running=BATCH, mode='segmented')
    for item in drawn(count):
        table.add(item.name, item.utility, item.arrival_s)
        table.set(item.name, 'expected_generation_s', item.generation_s)
        table.set(item.name, 'worst_tokens', 10)
    # Short runs and many: one of them is free of what else the machine does.
    return best_us(scheduler.select, 20, runs=150)


def best_us(step: object, repeats: int, runs: int = 9) -> float:
    best_s = float('inf')
    for _ in range(runs):
        started_s = time.perf_counter()
        for number in range(repeats):
            step(1e-4 * number)  # type: ignore[operator]
        best_s = min(best_s, (time.perf_counter() - started_s) / repeats)
    return 1e6 * best_s


def main() -> None:
    parser = arguments(__doc__)
    path = parser.parse_args().json
    print(f'{"waiting":>7} {"fcfs":>8} {"edf":>8} {"utility":>8} {"naive":>10} {"paper":>8}  (us)')
    figures = []
    for count in SIZES:
        row = {
            policy: ours_us(count, policy, SchedulingOptions(admission='feasible', interrupts=True))
            for policy in POLICIES
        }
        row |= {'waiting': count, 'naive': naive_us(count)}
        paper = PAPER_US.get(count)
        figures.append(row)
        cells = ' '.join(f'{row[policy]:8.1f}' for policy in POLICIES)
        print(f'{count:7} {cells} {row["naive"]:10.1f} {paper or "-":>8}')
    by_size = {row['waiting']: row for row in figures}
    targets = [
        Target('utility, 8 waiting (us)', by_size[8]['utility'], '<=', 20.0),
        Target('utility, 4096 waiting (us)', by_size[4096]['utility'], '<=', 100.0),
        Target(
            'times faster than naive, 4096 waiting',
            by_size[4096]['naive'] / by_size[4096]['utility'],
            '>=',
            10.0,
        ),
    ]
    save('scheduling', figures, targets, path=path)


POLICIES = ('fcfs', 'edf', 'utility')

if __name__ == '__main__':
    main()
