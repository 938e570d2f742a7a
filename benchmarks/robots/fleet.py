"""What a thousand robots cost one planner over real ROS 2, against eight in the same run.

Every fleet works from its programs, as a user starts them, with simulated robots and the simulated
engine. All are up once each robot has done a task. The planner's processor time is measured while
nobody asks for anything. Then the client of those tasks, which all have met, sends tasks of one
short call to random robots at random times, so many a second whether those before have ended or
not, one in four of them urgent; responses are the planner's own, and a task that does not succeed,
for whatever reason, has failed.
The programs have a host of their own where the system allows it, on which they speak as fleets do.
Guards wait longer than by default: the first tasks come while hundreds still meet, which holds up a
program on two full cores for longer than a robot may move unwatched otherwise.
With ``--discovery both`` the large fleet comes up once more with Fast DDS's discovery server, which
the wheel ``ros-fastdds`` has and every ROS 2.

    python -m benchmarks.robots.fleet
    python -m benchmarks.robots.fleet --robots 12 --programs 2 --seconds 10   # a small one
    python -m benchmarks.robots.fleet --discovery simple --rate 40
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from benchmarks.common import (
    COUNT,
    POSITIVE,
    Target,
    arguments,
    enter_own_host,
    lost_datagrams,
    save,
)
from benchmarks.robots.ros import SETTLE_S, TEXT, FleetUnderTest
from timely_llm_ros.demo import Children
from timely_llm_ros.processes import prepare_for_dds
from timely_llm_ros.testing import free_domain

if TYPE_CHECKING:
    from collections.abc import Iterator


SERVER, SERVE = 'fast-discovery-server', '42'
"""The program, and by what number ``fastdds discovery`` of Fast DDS 3 tells it to serve."""

SERVER_STARTS_S = 1.0
"""After so long it serves, or has said why not (s)."""

WORKER_TIMEOUT_S = 2.0
FEW = 8
IDLE_S = 20.0
UP_LIMIT_S = 900.0
ANSWER_LIMIT_S = 60.0
"""How long the last tasks may take to end (s)."""

URGENT = {'expected_response_s': 0.5, 'slope_per_s': -5.0, 'peak': 10.0}
"""The time utility of urgent tasks: they are worth nothing after 2.5 s."""

URGENT_SHARE = 0.25


@contextmanager
def discovery(server: str, folder: Path) -> Iterator[None]:
    """Have programs that are started meanwhile meet by a discovery server; by none where it is ''.

    They ask for what they do not listen to as well: a planner counts who serves its action.
    """
    if not server:
        yield
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    settings = {'ROS_DISCOVERY_SERVER': f'127.0.0.1:{port}', 'ROS_SUPER_CLIENT': 'TRUE'}
    children = Children(folder)
    where = ['-i', '0', '-l', '127.0.0.1', '-p', str(port)]
    child = children.start('discovery', [server, SERVE, *where])
    try:
        child.process.wait(SERVER_STARTS_S)
    except subprocess.TimeoutExpired:
        pass
    else:
        raise RuntimeError(f'{server}: {child.log_tail(3)}')
    os.environ |= settings
    try:
        yield
    finally:
        for name in settings:
            del os.environ[name]
        asyncio.run(children.stop_all())


class Load:
    """Sends tasks to random robots and hears how they end."""

    def __init__(self, fleet: FleetUnderTest, seed: int) -> None:
        assert fleet.client is not None
        assert fleet.told is not None
        self._client, self._told, self._robots = fleet.client, fleet.told, fleet.robots
        self._random = random.Random(seed)
        self._open: dict[str, bool] = {}
        self.urgent_s: list[float] = []
        self.normal_s: list[float] = []
        self.ends: Counter[str] = Counter()

    async def listen(self) -> None:
        """Take what the client tells, until it ends."""
        async for line in self._told:
            event = json.loads(line)
            if event['event'] in ('result', 'rejected', 'lost') and event['key'] in self._open:
                urgent = self._open.pop(event['key'])
                how = event.get('status', event['event'])
                self.ends[how if how == 'succeeded' else event.get('error_name', how)] += 1
                if how == 'succeeded':
                    (self.urgent_s if urgent else self.normal_s).append(event['response_s'])

    async def send(self, rate: float, length_s: float) -> None:
        """Send ``rate`` tasks a second for so long (s), then wait until they have ended."""
        at_s, number = time.monotonic(), 0
        end_s = at_s + length_s
        while (at_s := at_s + self._random.expovariate(rate)) < end_s:
            await asyncio.sleep(max(0.0, at_s - time.monotonic()))
            number += 1
            key, urgent = str(number), self._random.random() < URGENT_SHARE
            task = {
                'key': key,
                'robot': self._random.choice(self._robots),
                'instruction': TEXT,
                'scene': [],
                'when_busy': 'queue',
            }
            self._open[key] = urgent
            self._client.tell(task | ({'utility': URGENT} if urgent else {}))
        end_s = time.monotonic() + ANSWER_LIMIT_S
        while self._open and time.monotonic() < end_s:
            await asyncio.sleep(0.05)
        self.ends['no answer'] += len(self._open)


async def measure(
    robots: int, programs: int, options: Any, folder: Path, progress: Progress, *, works: bool
) -> dict[str, Any]:
    """Return the figures of one fleet; without ``works`` only when it was up."""
    children = Children(folder)
    names = [f'r_{number}' for number in range(1, robots + 1)]
    fleet = FleetUnderTest(children, folder, names, programs, worker_timeout_s=WORKER_TIMEOUT_S)
    try:
        found: dict[str, Any] = {'up (s)': await fleet.all_up(progress, UP_LIMIT_S)}
        if not works:
            return found
        await asyncio.sleep(SETTLE_S)
        before_s, since_s = fleet.processor_s(), time.monotonic()
        await asyncio.sleep(IDLE_S)
        idle = (fleet.processor_s() - before_s) / (time.monotonic() - since_s)
        planner_mb, executors_mb = fleet.memory_mb()
        load = Load(fleet, seed=0)
        listening = asyncio.create_task(load.listen())
        row = progress.add_task(f'{robots} robots work', total=None)
        before_s, since_s = fleet.processor_s(), time.monotonic()
        await load.send(options.rate, options.seconds)
        busy = (fleet.processor_s() - before_s) / (time.monotonic() - since_s)
        progress.update(row, total=1, completed=1)
        listening.cancel()
        return found | {
            'planner, idle (cores)': idle,
            'planner, at work (cores)': busy,
            'planner (MB)': planner_mb,
            'executors (MB)': executors_mb,
            'tasks': dict(load.ends),
            'urgent (s)': load.urgent_s,
            'normal (s)': load.normal_s,
        }
    finally:
        await children.stop_all()


def run(options: Any, server: str) -> dict[str, Any]:
    """Return the figures of every fleet, one after the other."""
    sizes = [(min(FEW, options.robots), 1, ''), (options.robots, options.programs, '')]
    if options.discovery == 'server':
        sizes = [(robots, programs, server) for robots, programs, _ in sizes]
    elif options.discovery == 'both':
        sizes.append((options.robots, options.programs, server))
    figures: dict[str, Any] = {}
    with Progress(console=Console(stderr=True)) as progress:
        for number, (robots, programs, used) in enumerate(sizes):
            os.environ['ROS_DOMAIN_ID'] = str(free_domain())
            with tempfile.TemporaryDirectory(prefix='timely-fleet-') as name:
                folder = Path(name)
                with discovery(used, folder):
                    one = measure(robots, programs, options, folder, progress, works=number < 2)
                    try:
                        found = asyncio.run(one)
                    except TimeoutError as err:
                        # What the fleets before it showed holds.
                        if number < 2:
                            raise
                        found = {'up (s)': None, 'problem': str(err)}
            title = ('few', 'many', 'many, with the discovery server')[number]
            figures[title] = {'robots': robots, 'executor programs': programs} | found
    return figures


def p99(times_s: list[float]) -> float:
    """Return the 99th percentile; as good as never where there is none."""
    return float(np.percentile(times_s, 99)) if times_s else ANSWER_LIMIT_S


def targets(figures: dict[str, Any]) -> list[Target]:
    """Print the table; return what it is measured against."""
    few, many = figures['few'], figures['many']
    print(f'{"":<34}{"robots":>8}{"all up":>10}{"idle":>9}{"at work":>9}{"urgent p99":>12}')
    for title, row in figures.items():
        up_s = row['up (s)']
        text = f'{title:<34}{row["robots"]:>8}'
        text += row['problem'] if up_s is None else f'{up_s:>8.1f} s'
        if 'urgent (s)' in row:
            text += f'{100 * row["planner, idle (cores)"]:>8.1f}%'
            text += f'{100 * row["planner, at work (cores)"]:>8.1f}%'
            text += f'{1000 * p99(row["urgent (s)"]):>9.0f} ms'
        print(text)
    more = max(1, many['robots'] - few['robots'])
    for side in ('planner', 'executors'):
        grown_mb = many[f'{side} (MB)'] - few[f'{side} (MB)']
        many[f'{side}, per robot (kB)'] = per_robot = 1024 * grown_mb / more
        print(f'{side}: {per_robot:.0f} kB for each more robot, more programs included')
    ratio = p99(many['urgent (s)']) / max(1e-3, p99(few['urgent (s)']))
    failed = sum(many['tasks'].values()) - many['tasks'].get('succeeded', 0)
    return [
        Target('idle planner (cores)', many['planner, idle (cores)'], '<=', 0.30),
        Target(f'urgent p99 over that of {few["robots"]} robots', ratio, '<=', 3.0),
        Target('tasks that failed', failed, '<=', 0),
    ]


def main() -> int:
    """Measure, print and save; return the exit code."""
    parser = arguments(__doc__)
    count, number = COUNT, POSITIVE
    parser.add_argument('--robots', type=count, default=1000, help='(default: 1000)')
    parser.add_argument(
        '--programs', type=count, default=16, help='executor programs for them (default: 16)'
    )
    parser.add_argument('--rate', type=number, default=20.0, help='tasks a second (default: 20)')
    parser.add_argument(
        '--seconds', type=number, default=60.0, help='how long tasks come (default: 60)'
    )
    parser.add_argument(
        '--discovery',
        choices=('both', 'simple', 'server'),
        default='both',
        help=f'how programs meet; all but "simple" need {SERVER} (default: both)',
    )
    options = parser.parse_args()
    if options.programs > options.robots:
        parser.error(f'--programs {options.programs}: expected at most one for each robot')
    beside = Path(sys.executable).with_name(SERVER)
    server = str(beside) if beside.is_file() else shutil.which(SERVER) or ''
    if not server and options.discovery != 'simple':
        parser.error(f'--discovery {options.discovery}: no {SERVER} here; expected it, or "simple"')
    alone = enter_own_host('benchmarks.robots.fleet', sys.argv[1:])
    prepare_for_dds()
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'SUBNET' if alone else 'LOCALHOST'
    try:
        figures = run(options, server)
    except KeyboardInterrupt:
        return 130
    wanted = targets(figures)
    lost, came = lost_datagrams()
    found = {'fleets': figures, 'alone': alone, 'datagrams without room': lost, 'datagrams': came}
    save('fleet', found, wanted, path=options.json)
    return not all(target.ok for target in wanted)


if __name__ == '__main__':
    sys.exit(main())
