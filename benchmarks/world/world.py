"""How fast the world is, and what succeeds in it, by its own judgement.

Speed: worlds of 8, 32 and 100 drones fly moves, with cameras that look five times a second; one
thread. The real-time factor is the time that passes in the world over the processor's time.

Success: 24 drones and 8 arms share one engine that writes the right plans at the pace of an 8B
model on an RTX 4090, two at once, and get 100 tasks in bursts; two worlds make 200 tasks. Served
segment by segment by least loss, and as whole plans first come, first served. Then both again with
cameras that miss and mistake 10 % and 30 % of what they see: the planner knows only what a survey
by them tells, and a plan that names what it does not know is refused.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from benchmarks.common import COUNT, Target, arguments, save
from benchmarks.world.flights import (
    SEGMENTED,
    TASKS,
    WHOLE_PLAN,
    Judged,
    busy_world,
    fly_logged,
)

if TYPE_CHECKING:
    from timely_llm_ros.drivers.tello.mock import TelloBody

FLEETS = (8, 32, 100)
NOISES = (0.0, 0.1, 0.3)
FLIGHT_S, WARM_UP_S = 20.0, 5.0
TICK_S, LOOK_TICKS = 0.02, 10

URGENT = ('avoid_injury', 'prevent_collision', 'evade_animal')


def real_time_factor(robots: int) -> float:
    """Return how many seconds pass in a world for each of the processor's."""
    world, drivers = busy_world(robots)
    bodies = [driver.body for driver in drivers]
    turns = 0

    def live(until_s: float) -> None:
        nonlocal turns
        while turns * TICK_S < until_s:
            for body in bodies:
                body.advance(turns * TICK_S)
                _fly_on(body, turns)
            if turns % LOOK_TICKS == 0:
                for camera in world.cameras.values():
                    camera.look()
            turns += 1

    for body in bodies:
        body.take('command', lambda _: None)
    live(WARM_UP_S)
    before_s = time.process_time()
    live(WARM_UP_S + FLIGHT_S)
    return FLIGHT_S / (time.process_time() - before_s)


def _fly_on(body: TelloBody, turn: int) -> None:
    """Have a drone take off, then fly a square for ever."""
    if turn % 250 == 0:
        body.take('forward 50' if body.flies else 'takeoff', lambda _: None)
    elif turn % 250 == 175:
        body.take('cw 90', lambda _: None)


def counts(judged: list[Judged]) -> dict[str, Any]:
    """Return how many tasks of each kind there were and how many succeeded, and why not."""
    tasks, succeeded = Counter[str](), Counter[str]()
    for one in judged:
        tasks[one.kind] += 1
        succeeded[one.kind] += one.succeeded
    urgent = [one for one in judged if one.kind in URGENT]
    failed = [one for one in judged if not one.succeeded]
    return {
        'tasks': len(judged),
        'succeeded': sum(one.succeeded for one in judged),
        'by_kind': {kind: [succeeded[kind], tasks[kind]] for kind in sorted(tasks)},
        'caught': sum(not one.succeeded for one in urgent),
        'wrecks': sum(
            one.verdict is not None and 'turned over' in one.verdict.why for one in failed
        ),
        'touched_something': sum(one.hits > 0 for one in judged),
        'refused_plans': sum('expected' in one.error and 'scene' in one.error for one in failed),
    }


def show(rows: dict[str, dict[str, Any]]) -> None:
    """Print the success of every way, per kind of task."""
    table = Table(title='tasks that succeeded by the world')
    table.add_column('kind of task')
    for name in rows:
        table.add_column(name, justify='right')
    kinds = sorted({kind for row in rows.values() for kind in row['by_kind']})
    for kind in kinds:
        pairs = [row['by_kind'].get(kind, [0, 0]) for row in rows.values()]
        table.add_row(kind.replace('_', ' '), *(f'{done}/{all_}' for done, all_ in pairs))
    table.add_section()
    for what in ('succeeded', 'caught', 'wrecks', 'touched_something'):
        table.add_row(what.replace('_', ' '), *(str(row[what]) for row in rows.values()))
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument('--worlds', type=COUNT, default=2, help=f'each with {TASKS} tasks')
    options = parser.parse_args()
    factors = {robots: real_time_factor(robots) for robots in FLEETS}
    for robots, factor in factors.items():
        print(f'{robots} drones: {factor:.1f} times real time', flush=True)
    rows: dict[str, dict[str, Any]] = {}
    logs: dict[str, str] = {}
    for noise in NOISES:
        for serving in (SEGMENTED, WHOLE_PLAN):
            judged: list[Judged] = []
            for seed in range(options.worlds):
                found, log = fly_logged(serving, seed, noise)
                judged += found
                if noise == 0 and seed == 0:
                    logs[serving.name] = log
            rows[f'{serving.name} {noise:.0%}'] = counts(judged)
            print(f'{serving.name}, noise {noise:.0%}: {rows[f"{serving.name} {noise:.0%}"]}')
            sys.stdout.flush()
    again = fly_logged(SEGMENTED, 0)[1]
    show(rows)
    segmented, whole = rows['segmented 0%'], rows['whole plan 0%']
    figures = {
        'real_time_factor': {str(robots): round(factor, 2) for robots, factor in factors.items()},
        'success': rows,
        'bytes_of_log': len(again),
    }
    targets = [
        Target('real-time factor at 32 drones', factors[32], '>=', 1.0),
        Target(
            'share of segmented tasks that succeed, without noise',
            segmented['succeeded'] / segmented['tasks'],
            '>=',
            0.9,
        ),
        Target(
            'successes that late plans cost (segmented less whole plan)',
            segmented['succeeded'] - whole['succeeded'],
            '>=',
            1,
        ),
        Target('runs of one seed whose logs differ', again != logs['segmented'], '<=', 0),
    ]
    save('world', figures, targets, path=options.json)
    return 0


if __name__ == '__main__':
    sys.exit(main())
