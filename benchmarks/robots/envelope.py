"""Plans against the envelopes of drones: whether one gets past, and what a look at a call takes.

    .venv/bin/python -m benchmarks.robots.envelope [--total 200000] [--seed 0] [--json FILE]

Drones with drawn rules (workspaces, volumes, heights, speeds, charge, distance to people) are told
drawn plans by the real executor, repeats, conditions, turns and values at the limits among them.
Half the bodies say where they are, well or a little wrong, the others say nothing; calls are cut
short at random, safe actions may land, and what reaches a body is integrated by the body itself and
sampled every centimetre by a judge that shares no code with the fence. ``--total`` counts plans and
the calls that reached a body.

The time of a look is that of ``Fence.check`` with a workspace, a height, a speed, five volumes and
five people among twenty objects, over the calls of drawn plans that are a move or an approach.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
import time
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.common import COUNT, FROM_ZERO, Target, arguments, save
from benchmarks.robots.envelope_trial import TELLO, Trial, try_drone
from timely_llm_ros.drivers import SimulatedDriver
from timely_llm_ros.errors import EnvelopeError
from timely_llm_ros.execution import Fence, Pose, read_envelope
from timely_llm_ros.skills import Call, Scene, SceneObject, parse
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import Sequence

RULES = {
    'workspace': {'x': [-20, 20], 'y': [-20, 20], 'z': [0, 4]},
    'no_go': {f'post_{n}': {'x': [n, n + 0.2], 'y': [2, 2.2]} for n in range(5)},
    'people_distance_m': 1.0,
    'maximum_height_m': 3.0,
    'maximum_speed_m_s': 1.0,
}
LOOKS = 200
ROUNDS = 25


class _Standing(SimulatedDriver):
    """A driver that always says the same of where its robot is."""

    pose = Pose(0.0, 0.0, 1.0, 0.0)


def main(given: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0 where the targets are met."""
    parser = arguments(__doc__)
    parser.add_argument('--total', type=COUNT, default=200_000)
    parser.add_argument('--seed', type=FROM_ZERO, default=0)
    options = parser.parse_args(given)
    trial = Trial()
    run_virtual(_try(trial, options.total, options.seed))
    look_us = look_times_us()
    print(f'{trial.plans} plans, {trial.calls} calls made, {len(trial.broken)} broke a rule')
    print('refused:', ', '.join(f'{rule} {count}' for rule, count in trial.refused.most_common()))
    print(f'a look: median {median(look_us):.1f} us of {len(look_us)} calls')
    for found in trial.broken[:10]:
        print(found)
    figures: dict[str, Any] = {
        'plans': trial.plans,
        'calls': trial.calls,
        'refused': dict(trial.refused.most_common()),
        'broken': len(trial.broken),
        'look_us': {'median': median(look_us), 'worst_call': max(look_us)},
    }
    targets = [
        Target('plans and calls', trial.plans + trial.calls, '>=', options.total),
        Target('calls that broke a rule', len(trial.broken), '<=', 0),
        Target('a look (us, median over calls)', median(look_us), '<=', 20),
    ]
    save('envelope', figures, targets, path=options.json)
    return 0 if all(target.ok for target in targets) else 1


async def _try(trial: Trial, total: int, seed: int) -> None:
    for number in itertools.count(seed):
        if trial.plans + trial.calls >= total:
            return
        await try_drone(number, trial)


def look_times_us() -> list[float]:
    """Return how long a look takes (us) for different calls, the least of many tries of each."""
    people = [SceneObject(f'worker_{n}', 'worker', x_m=-4.0, y_m=3.0 * n) for n in range(5)]
    cups = [SceneObject(f'cup_{n}', 'cup', x_m=0.5 * n, y_m=-2.0) for n in range(15)]
    scene = Scene((*people, *cups))
    fence, draw = Fence(read_envelope(RULES), TELLO, _Standing(TELLO)), random.Random(1)
    found = []
    for _ in range(LOOKS):
        text = draw.choice(
            (
                f'move_forward({draw.randint(20, 500)});',
                f'move_left({draw.randint(20, 500)});',
                f'goto(cup_{draw.randrange(15)});',
            )
        )
        (call,) = parse(text, TELLO, scene)
        assert isinstance(call, Call)
        times_us = []
        for _ in range(ROUNDS):
            begin = time.perf_counter_ns()
            with contextlib.suppress(EnvelopeError):
                fence.check(call, scene)
            times_us.append((time.perf_counter_ns() - begin) / 1000)
        found.append(min(times_us))
    return found


if __name__ == '__main__':
    sys.exit(main())
