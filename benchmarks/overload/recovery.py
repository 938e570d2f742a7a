"""Whether all is as before once an overload is over, on virtual time.

    .venv/bin/python -m benchmarks.overload.recovery [--seeds 20] [--robots 150 10] [--load 10]
        [--cycles 6] [--json FILE]

A load of 1 goes on for 90 s; between 20 and 40 s so many times as much comes beside it. What the
tasks that came later than 5 s after that earned is compared with what the same tasks earn when
nothing else ever came. Then one fleet has an overload of 10 s in every 40 s, and what its admission
keeps in memory is taken 25 s after each: what Python allocated in the prices and expectations, the
robots' queues and the scheduler. The tasks have the floor 0 and are served our
way.
"""

from __future__ import annotations

import gc
import statistics
import tracemalloc
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import timely_llm_ros
from benchmarks.common import COUNT, POSITIVE, Target, arguments, save
from benchmarks.overload.overload import OURS, ways
from benchmarks.overload.serving import overload, serve
from timely_llm_ros.planner import TaskEnded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.evaluation import Workload, WorkloadTask
    from timely_llm_ros.planner import PlannerEvent

LASTS_S = 90.0
CROWD_S = (20.0, 40.0)
RECOVERS_S = 5.0

CYCLE_S = 40.0
CYCLE_CROWD_S = 10.0
LOOKED_AT_S = 35.0

_KEEPERS = ('planner/worth/*', 'planner/robot_queue.py', 'scheduling/*')


@dataclass(frozen=True, slots=True)
class Recovery:
    """What the tasks that came after an overload earned, and would have earned without it.

    Attributes:
        robots: How many the fleet has.
        load: What came beside the load of 1.
        after: Utility per second of the tasks that came later than 5 s after it, mean over draws.
        calm: The same of the same tasks when nothing else had come.
        tasks: How many came in all.
        answers: How many of them ended how often.
        codes: How many ended with which code.
        kept_bytes: What admission kept in memory after each overload of one long run.
    """

    robots: int
    load: float
    after: float
    calm: float
    tasks: int
    answers: dict[int, int]
    codes: dict[int, int]
    kept_bytes: list[int]


def recovery(load: float, *, robots: int, seeds: Sequence[int], cycles: int) -> Recovery:
    """Serve every draw with the overload and without it, and one long run."""
    after, calm = list[float](), list[float]()
    codes, answers, count = Counter[int](), Counter[int](), 0
    for seed in seeds:
        quiet = overload(1.0, robots=robots, duration_s=LASTS_S, seed=seed)
        crowded = with_crowds(quiet, load, [CROWD_S], seed)
        ended = Counter[str]()

        def see(event: PlannerEvent, ended: Counter[str] = ended) -> None:
            ended[event.task_id] += isinstance(event, TaskEnded)

        alone = serve(quiet, ways(8)[OURS])
        among = serve(crowded, ways(8)[OURS], on_event=see)
        late = {id(task) for task in quiet.tasks if task.at_s >= CROWD_S[1] + RECOVERS_S}
        span_s = LASTS_S - CROWD_S[1] - RECOVERS_S
        for outcomes, earned in ((alone, calm), (among, after)):
            worth = (max(0.0, one.utility) for one in outcomes if id(one.task) in late)
            earned.append(sum(worth) / span_s)
        count += len(among)
        codes.update(one.code for one in among)
        answers.update((one.refusal is not None) + ended[str(one.number)] for one in among)
    kept = kept_bytes(load, robots=robots, cycles=cycles)
    means = statistics.fmean(after), statistics.fmean(calm)
    return Recovery(robots, load, *means, count, dict(answers), dict(codes), kept)


def with_crowds(
    quiet: Workload, load: float, spans_s: Sequence[tuple[float, float]], seed: int
) -> Workload:
    """Return a workload with so much more load in every span of time."""
    tasks: list[WorkloadTask] = list(quiet.tasks)
    for number, (begin_s, end_s) in enumerate(spans_s):
        drawn = overload(
            load, robots=quiet.robots, duration_s=end_s - begin_s, seed=1000 * (seed + 1) + number
        )
        tasks += [replace(task, at_s=begin_s + task.at_s) for task in drawn.tasks]
    return replace(quiet, tasks=tuple(sorted(tasks, key=lambda task: task.at_s)))


def kept_bytes(load: float, *, robots: int, cycles: int) -> list[int]:
    """Return what admission keeps in memory after each of many overloads."""
    quiet = overload(1.0, robots=robots, duration_s=cycles * CYCLE_S, seed=0)
    begins = [number * CYCLE_S for number in range(cycles)]
    spans = [(begin_s, begin_s + CYCLE_CROWD_S) for begin_s in begins]
    found: list[int] = []
    home = timely_llm_ros.__path__[0]
    keepers = [tracemalloc.Filter(inclusive=True, filename_pattern=f'{home}/{k}') for k in _KEEPERS]

    def see(event: PlannerEvent) -> None:
        if event.at_s >= len(found) * CYCLE_S + LOOKED_AT_S:
            gc.collect()  # which empties Python's lists of free objects too
            taken = tracemalloc.take_snapshot().filter_traces(keepers)
            found.append(sum(trace.size for trace in taken.traces))

    tracemalloc.start()
    try:
        serve(with_crowds(quiet, load, spans, 0), ways(8)[OURS], on_event=see)
    finally:
        tracemalloc.stop()
    return found


def targets(found: Sequence[Recovery]) -> list[Target]:
    """Return what should have been found."""
    made = []
    for one in found:
        fleet = f'{one.robots} robots'
        share = one.after / one.calm if one.calm else 0.0
        made.append(Target(f'{fleet}: of what is earned without an overload', share, '>=', 0.95))
        once = one.answers.get(1, 0) / one.tasks
        made.append(Target(f'{fleet}: goals that ended once', once, '>=', 1.0))
        if len(one.kept_bytes) > 2:
            half = len(one.kept_bytes) // 2
            grown = max(one.kept_bytes[half:]) / max(one.kept_bytes[:half])
            made.append(Target(f'{fleet}: memory, second half over first', grown, '<=', 1.05))
    return made


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--seeds', type=COUNT, default=20)
    parser.add_argument('--robots', type=COUNT, nargs='+', default=[150, 10])
    parser.add_argument('--load', type=POSITIVE, default=10.0)
    parser.add_argument('--cycles', type=COUNT, default=6)
    options = parser.parse_args()
    found = []
    for robots in options.robots:
        one = recovery(
            options.load, robots=robots, seeds=range(options.seeds), cycles=options.cycles
        )
        found.append(one)
        print(
            f'{robots} robots: {one.after:.3f} a second after the overload, {one.calm:.3f} without '
            f'it; {one.tasks} goals, ends per goal {one.answers}, codes {one.codes}; '
            f'kept {[round(kept / 1024) for kept in one.kept_bytes]} KiB',
            flush=True,
        )
    figures = {'seeds': options.seeds, 'recoveries': [asdict(one) for one in found]}
    save('overload_recovery', figures, targets(found), path=options.json)


if __name__ == '__main__':
    main()
