"""Four planners and eight replicas for ten thousand robots, on virtual time and one core.

    .venv/bin/python -m benchmarks.timelyllm.thousands [--robots 10000] [--duration 300] [--seed 1]
        [--json FILE]

Every planner serves a share of the robots, and all of them share the replicas of the engine
``ray``. Planners, the choice of a replica for each plan, what goes between the two, the scheduler
in each replica (``least_loss`` and ``lookahead``, at most 80 in a step), segmenters and executors
are the real ones. Three things are not: a replica's step times come from a formula (preset
``rtx4090_llama3_8b``), a call takes 5 ms each way in place of Ray's own time, and robots only
sleep. The tasks are those of ``scale``: every robot gets one every 22 s on average. ``load`` is
what their tokens and prompts take of the replicas' time in full steps.

The fleet is served twice from one seed, in a process of its own each time, to compare the logs.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks.common import COUNT, FROM_ZERO, POSITIVE, Target, arguments, save
from benchmarks.timelyllm import scale
from benchmarks.timelyllm.comparison import lookahead
from timely_llm_ros.engines import SegmentGenerated

if TYPE_CHECKING:
    from timely_llm_ros.engines import EngineEvent

REPLICAS, PLANNERS = 8, 4
HARDWARE = 'rtx4090_llama3_8b'
SYSTEM = lookahead(80)
LIMIT_S = 300.0


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--robots', type=COUNT, default=10_000)
    parser.add_argument('--duration', type=POSITIVE, default=300.0, help='virtual seconds')
    parser.add_argument('--seed', type=FROM_ZERO, default=1)
    parser.add_argument('--one', type=COUNT, metavar='ROBOTS', help='serve them once, print JSON')
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(serve(options.one, options.duration, options.seed)))
        return
    print(scale.HEAD)
    program = 'benchmarks.timelyllm.thousands'
    figures = [scale.serve_in_child(options.robots, options, program) for _ in range(2)]
    same = float(figures[0]['log_sha256'] == figures[1]['log_sha256'])
    name = f'{options.robots} robots, {options.duration:g} s, {REPLICAS} replicas'
    worst_s = max(row['cpu_s'] for row in figures)
    targets = [
        Target(f'{name}: CPU time of the slower run (s)', worst_s, '<=', LIMIT_S),
        Target(f'{name}, twice: byte-identical event logs', same, '>=', 1.0),
    ]
    save('thousands', figures, targets, path=options.json)


def serve(robots: int, duration_s: float, seed: int) -> dict[str, Any]:
    cost_s = 0.0

    def see(event: EngineEvent) -> None:
        nonlocal cost_s
        if isinstance(event, SegmentGenerated):
            cost_s += event.cost_s

    figures = scale.serve(
        robots,
        duration_s,
        seed,
        SYSTEM,
        hardware=HARDWARE,
        on_engine_event=see,
        replicas=REPLICAS,
        planners=PLANNERS,
    )
    return figures | {
        'replicas': REPLICAS,
        'planners': PLANNERS,
        'places': SYSTEM.max_running,
        'tasks_per_s': figures['tasks'] / duration_s,
        'load': cost_s / (REPLICAS * duration_s),
    }


if __name__ == '__main__':
    main()
