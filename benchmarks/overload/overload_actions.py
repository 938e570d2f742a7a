"""More tasks than can be served, of a planner that runs a real model, over real ROS 2 actions.

    python -m benchmarks.overload.overload_actions [--loads 0.5 1 2 5 10 20] [--seconds 30]
        [--bounds engine robots] [--model models/smollm2-tuned]

Two fleets of simulated drones, each with a planner as a user starts it (engine ``torch``): one
whose engine is the bottleneck, with a general model (``make model-smollm2``) and robots that do in
a hundredth of the time what their plans say, and one whose robots are, few and ten times as slow,
with the model that ships. What a fleet can serve is measured first, with two tasks at each robot
all the time. A load of 1 is that many tasks a second, at random, one in four of them urgent; each
names the robot with fewest open tasks and queues there. Times are scaled to a fleet's: its unit is
what one urgent task alone takes, to its first action where the engine is the bottleneck and to its
end where robots are. Urgent tasks are expected after two units and worth nothing after six, normal
ones after six and eighteen, and none is wanted when it is worth nothing. What is earned is the
positive utility of the tasks that succeeded, per second in which tasks came.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from benchmarks.common import COUNT, POSITIVE, Target, arguments, lines_of, sample, save
from timely_llm_ros.demo import Children, node_command
from timely_llm_ros.engines.tokens import find_model, require_model_files
from timely_llm_ros.errors import ModelLoadError
from timely_llm_ros.processes import prepare_for_dds
from timely_llm_ros.sample_tasks import KINDS, sample_task
from timely_llm_ros.testing import free_domain
from timely_llm_ros.utility import TimeUtility

if TYPE_CHECKING:
    from timely_llm_ros.demo import Child

URGENT_SHARE = 0.25
CALM_KINDS = [number for number, kind in KINDS.items() if kind.skill_set == 'tello']
URGENT_KINDS = [number for number in CALM_KINDS if KINDS[number].urgent]
OBJECTS = 5

UNHURRIED = TimeUtility(expected_response_s=600.0, slope_per_s=-0.01, peak=1.0)
"""Of tasks that show how many can be served."""

ALONE = 12
"""Urgent tasks one by one that show what one takes alone."""

RECOVERS_S = 5.0
"""How long after the last task all is as before (s)."""

UP_LIMIT_S, END_LIMIT_S = 240.0, 120.0


@dataclass(frozen=True, slots=True)
class Bound:
    """A fleet, and what limits it.

    Attributes:
        robots: How many it has.
        time_scale: How long they take for what a plan says, its time being 1.
        model: The model's folder; '' for the one that ships.
        unit: The time of a task alone that all others are scaled to.
    """

    robots: int
    time_scale: float
    model: str
    unit: str


@dataclass(slots=True, eq=False)
class Asked:
    """A task that was sent, and what was heard of it."""

    urgent: bool
    robot: str
    sent_s: float
    answered_s: float | None = None
    ends: list[dict[str, Any]] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def succeeded(self) -> bool:
        return bool(self.ends) and self.ends[0].get('status') == 'succeeded'

    @property
    def why(self) -> str:
        """How it ended, in a word."""
        end = self.ends[0] if self.ends else {'event': 'no end'}
        return 'succeeded' if self.succeeded else end.get('error_name', end['event'])


@dataclass(frozen=True, slots=True)
class Served:
    """What became of one load.

    Attributes:
        load: The load.
        rate: Tasks sent per second.
        earned: Positive utility per second.
        tasks: How many came.
        ends: How they ended, and how many did so.
        urgent_p50_s: Response of the urgent tasks that succeeded, median (s).
        urgent_p99_s: The same, 99 % (s).
        answered_p50_s: From sending to the answer whether it is taken, median (s).
        answered_p99_s: The same, 99 % (s).
        not_once: Tasks that did not end exactly once, or that failed without a reason.
        planner_mb: What planner and engine take afterwards.
    """

    load: float
    rate: float
    earned: float
    tasks: int
    ends: dict[str, int]
    urgent_p50_s: float
    urgent_p99_s: float
    answered_p50_s: float
    answered_p99_s: float
    not_once: int
    planner_mb: float


class Crowd:
    """Sends tasks through a client in a process of its own and hears what becomes of them."""

    def __init__(self, client: Child, robots: list[str]) -> None:
        self._client, self._random = client, random.Random('crowd')
        self._open = dict.fromkeys(robots, 0)
        self._asked: dict[str, Asked] = {}
        self.ready = asyncio.Event()

    async def listen(self) -> None:
        """Take what the client tells, until it ends."""
        async for line in lines_of(self._client):
            event = json.loads(line)
            asked = self._asked.get(event.get('key', ''))
            match event['event']:
                case 'ready':
                    self.ready.set()
                case 'accepted' if asked is not None:
                    asked.answered_s = time.monotonic()
                case 'result' | 'rejected' | 'lost' if asked is not None:
                    if not asked.ends:
                        self._open[asked.robot] -= 1
                    asked.ends.append(event)
                    asked.ended.set()

    def ask(self, utility: TimeUtility, *, urgent: bool, robot: str = '') -> Asked:
        """Send a task, to the robot with fewest open ones unless one is named."""
        least = min(self._open.values())
        robot = robot or self._random.choice([it for it, n in self._open.items() if n == least])
        kind = self._random.choice(URGENT_KINDS if urgent else CALM_KINDS)
        drawn = sample_task(self._random, kind, OBJECTS)
        key = str(len(self._asked))
        asked = self._asked[key] = Asked(urgent, robot, time.monotonic())
        self._open[robot] += 1
        self._client.tell(
            {
                'key': key,
                'robot': robot,
                'instruction': drawn.instruction,
                'task_kind': KINDS[kind].name,
                'scene': [asdict(item) for item in drawn.scene.objects],
                'utility': utility.as_dict(),
                'when_busy': 'queue',
            }
        )
        return asked

    async def alone(self, utility: TimeUtility) -> list[dict[str, Any]]:
        """Send urgent tasks one by one; return how those ended that succeeded."""
        found = []
        for _ in range(ALONE):
            asked = self.ask(utility, urgent=True)
            await asyncio.wait_for(asked.ended.wait(), END_LIMIT_S)
            if asked.succeeded:
                found.append(asked.ends[0])
        if not found:
            raise RuntimeError(f'{ALONE} tasks, one by one: expected one to succeed: {asked.ends}')
        return found

    async def full(self, seconds: float) -> float:
        """Return how many tasks a second succeed when each robot always has two."""
        done, until_s = 0, 0.0

        async def again(robot: str) -> None:
            nonlocal done
            while time.monotonic() < until_s:
                urgent = self._random.random() < URGENT_SHARE
                asked = self.ask(UNHURRIED, urgent=urgent, robot=robot)
                await asked.ended.wait()
                done += asked.succeeded and time.monotonic() < until_s

        # The first tasks find an empty fleet.
        for last_s in (seconds / 3, seconds):
            done, until_s = 0, time.monotonic() + last_s
            await asyncio.gather(*(again(robot) for robot in self._open for _ in range(2)))
        return done / seconds

    async def come(self, rate: float, seconds: float, unit_s: float) -> list[Asked]:
        """Have tasks come, and return them when they have ended."""
        urgent_utility = TimeUtility(2 * unit_s, -2.0 / (4 * unit_s), 2.0, 0.0)
        utility = TimeUtility(6 * unit_s, -1.0 / (12 * unit_s), 1.0, 0.0)
        found: list[Asked] = []
        at_s = time.monotonic()
        end_s = at_s + seconds
        while (at_s := at_s + self._random.expovariate(rate)) < end_s:
            await asyncio.sleep(max(0.0, at_s - time.monotonic()))
            urgent = self._random.random() < URGENT_SHARE
            found.append(self.ask(urgent_utility if urgent else utility, urgent=urgent))
        waits = [asyncio.ensure_future(asked.ended.wait()) for asked in found]
        if waits:
            _, missing = await asyncio.wait(waits, timeout=END_LIMIT_S)
            for wait in missing:
                wait.cancel()
        return found


def quantile(times_s: list[float], part: float) -> float:
    """Return a quantile (s); as good as never where there is none."""
    return float(np.percentile(times_s, part)) if times_s else END_LIMIT_S


def served(load: float, rate: float, asked: list[Asked], seconds: float, mb: float) -> Served:
    """Return what became of one load."""
    good = [one.ends[0] for one in asked if one.succeeded]
    urgent = [one.ends[0]['response_s'] for one in asked if one.succeeded and one.urgent]
    answered = [one.answered_s - one.sent_s for one in asked if one.answered_s is not None]
    return Served(
        load,
        rate,
        sum(max(0.0, end['utility']) for end in good) / seconds,
        len(asked),
        dict(Counter(one.why for one in asked)),
        quantile(urgent, 50),
        quantile(urgent, 99),
        quantile(answered, 50),
        quantile(answered, 99),
        sum(len(one.ends) != 1 or not (one.succeeded or one.ends[0].get('error')) for one in asked),
        mb,
    )


def memory_mb(planner: Child) -> float:
    """Return what the planner and its engine take."""
    taken = sample(planner.process.pid, 0.0)
    if taken is None:
        raise RuntimeError('planner: expected it to run while it is measured')
    return taken.memory_mb


async def measure(
    name: str, bound: Bound, options: Any, folder: Path, progress: Progress
) -> dict[str, Any]:
    """Return the figures of one fleet."""
    children = Children(folder)
    robots = [f'r_{number}' for number in range(1, bound.robots + 1)]
    entries = [f'{robot}:tello' for robot in robots]
    row = progress.add_task(f'{name}: comes up', total=3 + len(options.loads))
    try:
        parameters = {'robots': entries, 'engine': 'torch', 'model_path': bound.model}
        planner = children.start('planner', node_command('planner', parameters))
        simulated = {'robots': entries, 'time_scale': bound.time_scale}
        children.start('executor', node_command('executor', simulated))
        program = [sys.executable, '-m', 'timely_llm_ros.nodes.tools.plan_client', '--watch']
        crowd = Crowd(children.start('client', [*program, *robots], pipes=True), robots)
        listening = asyncio.create_task(crowd.listen())
        await asyncio.wait_for(crowd.ready.wait(), UP_LIMIT_S)

        def step(what: str) -> None:
            progress.update(row, advance=1, description=f'{name}: {what}')

        step('one task at a time')
        before = await crowd.alone(UNHURRIED)
        unit_s = statistics.median(end[bound.unit] for end in before)
        step('as many as it can serve')
        capacity = await crowd.full(options.seconds)
        found = []
        for load in sorted(options.loads):
            step(f'load {load:g}')
            asked = await crowd.come(load * capacity, options.seconds, unit_s)
            mb = memory_mb(planner)
            found.append(served(load, load * capacity, asked, options.seconds, mb))
        await asyncio.sleep(RECOVERS_S)
        step('one task at a time')
        after = await crowd.alone(UNHURRIED)
        listening.cancel()
    finally:
        await children.stop_all()
    return {
        'bound': asdict(bound),
        'unit (s)': unit_s,
        'capacity (tasks/s)': capacity,
        'alone before (s)': [end['response_s'] for end in before],
        'alone after (s)': [end['response_s'] for end in after],
        'loads': [asdict(one) for one in found],
    }


def targets(figures: dict[str, dict[str, Any]]) -> list[Target]:
    """Print the tables; return what they are measured against."""
    wanted = []
    for name, one in figures.items():
        rows = [Served(**row) for row in one['loads']]
        most = max(row.earned for row in rows)
        print(
            f'\n{name}: {one["bound"]["robots"]} robots, {one["capacity (tasks/s)"]:.2f} tasks/s '
            f'can be served, unit {one["unit (s)"]:.2f} s'
        )
        print(
            f'{"load":>6}{"tasks":>7}{"earned/s":>10}{"of most":>9}{"urgent p50, p99":>18}'
            f'{"answered p50, p99":>20}{"MB":>7}  ends'
        )
        for row in rows:
            ends = ', '.join(f'{count} {how}' for how, count in sorted(row.ends.items()))
            print(
                f'{row.load:>6g}{row.tasks:>7}{row.earned:>10.3f}{row.earned / most:>9.1%}'
                f'{row.urgent_p50_s:>9.2f}{row.urgent_p99_s:>7.2f} s'
                f'{1000 * row.answered_p50_s:>11.1f}{1000 * row.answered_p99_s:>6.0f} ms'
                f'{row.planner_mb:>7.0f}  {ends}'
            )
        by_load = {row.load: row for row in rows}
        if 1 in by_load and 10 in by_load:
            ratio = by_load[10].urgent_p99_s / by_load[1].urgent_p99_s
            wanted.append(Target(f'{name}: urgent p99 at 10 over that at 1', ratio, '<=', 1.5))
        before = accumulate((row.earned for row in rows), max)
        least = min(row.earned / most_yet for row, most_yet in zip(rows, before, strict=True))
        wanted.append(Target(f'{name}: least earned over the most at less load', least, '>=', 0.9))
        not_once = sum(row.not_once for row in rows)
        alone = [statistics.median(one[f'alone {when} (s)']) for when in ('before', 'after')]
        wanted += [
            Target(f'{name}: tasks without one end with a reason', not_once, '<=', 0),
            Target(f'{name}: a task alone, afterwards over before', alone[1] / alone[0], '<=', 1.5),
            Target(
                f'{name}: memory at the end over that after the first load',
                rows[-1].planner_mb / rows[0].planner_mb,
                '<=',
                1.1,
            ),
        ]
    return wanted


def main() -> int:
    """Measure, print and save; return the exit code."""
    parser = arguments(__doc__)
    parser.add_argument(
        '--loads',
        type=POSITIVE,
        nargs='+',
        default=[0.5, 1, 2, 5, 10, 20],
        help='rising (default: 0.5 1 2 5 10 20)',
    )
    parser.add_argument(
        '--seconds', type=POSITIVE, default=30.0, help='how long tasks come (default: 30)'
    )
    parser.add_argument(
        '--bounds', nargs='+', choices=('engine', 'robots'), default=['engine', 'robots']
    )
    parser.add_argument('--model', default='models/smollm2-tuned', metavar='FOLDER')
    parser.add_argument(
        '--robots', type=COUNT, default=16, help='where the engine is (default: 16)'
    )
    options = parser.parse_args()
    bounds = {
        'engine': Bound(options.robots, 0.01, options.model, 'response_s'),
        'robots': Bound(4, 0.1, '', 'completion_s'),
    }
    bounds = {name: bounds[name] for name in options.bounds}
    try:
        for bound in bounds.values():
            require_model_files(find_model(bound.model))
    except ModelLoadError as err:
        parser.error(f'--model: {err}')
    prepare_for_dds()
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
    figures = {}
    try:
        with Progress(console=Console(stderr=True)) as progress:
            for name, bound in bounds.items():
                os.environ['ROS_DOMAIN_ID'] = str(free_domain())
                with tempfile.TemporaryDirectory(prefix='timely-overload-') as folder:
                    made = measure(name, bound, options, Path(folder), progress)
                    figures[name] = asyncio.run(made)
    except KeyboardInterrupt:
        return 130
    wanted = targets(figures)
    save('overload_actions', figures, wanted, path=options.json)
    return not all(target.ok for target in wanted)


if __name__ == '__main__':
    sys.exit(main())
