"""How fast a robot is safe after a process dies, over real ROS 2, and how often nobody had died.

A planner and the executor of a simulated robot run as programs with the timeouts that they have by
default. In the middle of a long skill the planner or the executor's worker is killed, or the worker
is stopped and hangs. Times are from the signal to the robot's safe action, by the record of the
robot's body on the machine's monotonic clock. Then the robot works for a while without a fault, and
every loss that is noticed is a false alarm. Both are done on the idle machine and beside processes
that never rest.

    python -m benchmarks.robots.deaths [--trials 10] [--minutes 5] [--load 8]
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress

from benchmarks.common import (
    COUNT,
    FROM_ZERO,
    Number,
    Target,
    arguments,
    busy,
    lines_of,
    save,
    worker_of,
)
from timely_llm_ros.demo import Children, node_command
from timely_llm_ros.drivers import read_journal
from timely_llm_ros.testing import free_domain

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.demo import Child

ROBOT = 'drone_1'
LIMIT_S = 60.0
ALARM = 'no sign of life'
TARGETS_S = {'planner killed': 0.5, 'worker hung': 0.3, 'worker killed': 0.3}
"""What dies, and how long the robot may take to be safe (s)."""


@dataclass(slots=True)
class Site:
    """The programs of one robot, and what its body was told."""

    children: Children
    folder: Path
    robot: str = ROBOT
    skill_set: str = 'tello'
    plan: str = 'delay(9000);' * 4
    """A task that takes long."""
    begins: str = 'start'
    """What the record of its body calls the begin of it."""
    executor: dict[str, Any] = field(default_factory=dict)
    """Parameters of its executor."""
    running: dict[str, Child] = field(default_factory=dict)
    tasks: int = 0
    ready: bool = False
    ended: dict[str, str] = field(default_factory=dict)
    reading: asyncio.Task[None] | None = None

    def start(self, name: str) -> None:
        robots = [f'{self.robot}:{self.skill_set}']
        parameters: dict[str, Any] = {'robots': robots}
        if name == 'planner':
            parameters['engine'] = 'simulated'
        else:
            parameters |= {'journal_path': str(self.journal_path), **self.executor}
        self.running[name] = self.children.start(name, node_command(name, parameters))

    @property
    def journal_path(self) -> Path:
        return self.folder / f'{self.robot}.jsonl'

    def journal(self) -> list[dict[str, Any]]:
        return read_journal(self.journal_path)

    def alarms(self) -> int:
        logs = {child.log for child in self.running.values()}
        return sum(log.read_text(errors='replace').count(ALARM) for log in logs)

    async def connect(self) -> None:
        """Start the client through which tasks are sent, and follow what it tells."""
        module = ['-m', 'timely_llm_ros.nodes.tools.plan_client']
        client = self.children.start('client', [sys.executable, *module], pipes=True)
        self.running['client'] = client
        self.reading = asyncio.create_task(self._read(client))

    async def _read(self, client: Child) -> None:
        async for line in lines_of(client):
            event = json.loads(line)
            if event['event'] in ('ready', 'lost'):
                self.ready = event['event'] == 'ready'
            elif event['event'] in ('result', 'rejected'):
                self.ended[event['key']] = event.get('status', 'rejected')

    async def send(self, instruction: str) -> str:
        """Send a task; return its key."""
        await until(lambda: self.ready, 'planner')
        self.tasks += 1
        key = str(self.tasks)
        task = {'key': key, 'robot': self.robot, 'instruction': instruction, 'scene': []}
        stdin = self.running['client'].process.stdin
        assert stdin is not None
        stdin.write(json.dumps(task).encode() + b'\n')
        stdin.flush()
        return key

    async def fly(self) -> None:
        """Send long tasks until the robot does one."""
        while True:
            before = len(self.journal())
            key = await self.send(self.plan)
            await until(partial(self._began_or_ended, before, key), 'a start')
            if self._began(before):
                return
            await asyncio.sleep(0.2)

    def _began_or_ended(self, before: int, key: str) -> bool:
        return self._began(before) or key in self.ended

    def _began(self, before: int) -> bool:
        return any(line['event'] == self.begins for line in self.journal()[before:])


async def until(condition: Callable[[], object], what: str) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end_s:
            raise TimeoutError(f'{what}: not within {LIMIT_S:g} s')
        await asyncio.sleep(0.01)


async def time_to_safe(site: Site, fault: str) -> float:
    """Have one process die while the robot works; return when the robot is safe (s after it)."""
    await site.fly()
    name = fault.split()[0].replace('worker', 'executor')
    victim = site.running[name]
    victim.expected_to_end = True
    pid = victim.process.pid if name == 'planner' else await worker_of(victim)
    before = len(site.journal())
    at_s = time.monotonic()
    os.kill(pid, signal.SIGSTOP if fault.endswith('hung') else signal.SIGKILL)

    def safe() -> list[float]:
        return [line['t'] for line in site.journal()[before:] if line['event'] == 'safe']

    await until(safe, f'{fault}: safe')
    await until(lambda: victim.process.poll() is not None, 'its end')
    if name == 'planner':
        await until(lambda: not site.ready, 'the loss')
    site.start(name)
    return safe()[0] - at_s


async def false_alarms(site: Site, minutes: float) -> dict[str, float]:
    """Have the robot work without a fault; return what was noticed all the same."""
    await site.fly()
    before, end_s = site.alarms(), time.monotonic() + 60.0 * minutes
    done = failed = 0
    while time.monotonic() < end_s:
        key = await site.send('delay(700);' * 3)
        await until(partial(site.ended.__contains__, key), 'an end')
        done += 1
        failed += site.ended[key] != 'succeeded'
    return {'minutes': minutes, 'tasks': done, 'failed': failed, 'alarms': site.alarms() - before}


async def measure(trials: int, minutes: float, load: int, progress: Progress) -> dict[str, Any]:
    """Return times to safety and false alarms beside ``load`` processes that never rest."""
    figures: dict[str, Any] = {}
    row = progress.add_task(f'load {load}', total=trials * len(TARGETS_S) + 1)
    with busy(load), tempfile.TemporaryDirectory(prefix='timely-deaths-') as folder:
        children = Children(Path(folder))
        site = Site(children, Path(folder))
        try:
            site.start('planner')
            site.start('executor')
            await site.connect()
            for fault in TARGETS_S:
                times_s = []
                for _ in range(trials):
                    times_s.append(await time_to_safe(site, fault))
                    progress.advance(row)
                figures[fault] = {'times_s': times_s, 'worst_s': max(times_s)}
            figures['false alarms'] = await false_alarms(site, minutes)
            progress.advance(row)
        finally:
            await children.stop_all()
    return figures


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--trials', type=COUNT, default=10, help='of each fault')
    parser.add_argument(
        '--minutes',
        type=Number(0, whole=False),
        default=5.0,
        help='without a fault; at most 5 on the idle machine',
    )
    parser.add_argument('--load', type=FROM_ZERO, default=8, help='processes that never rest')
    options = parser.parse_args()
    os.environ |= {
        'ROS_DOMAIN_ID': str(free_domain()),
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
    }
    figures = {}
    with Progress(console=Console(stderr=True)) as progress:
        for load in dict.fromkeys((0, options.load)):
            minutes = options.minutes if load else min(options.minutes, 5.0)
            run = measure(options.trials, minutes, load, progress)
            figures[f'load {load}'] = asyncio.run(run)
    targets = []
    print(f'{"":<10}{"fault":<18}{"median":>10}{"worst":>10}')
    for load, found in figures.items():
        for fault, bound_s in TARGETS_S.items():
            times_s = sorted(found[fault]['times_s'])
            median_ms, worst_ms = 1000 * times_s[len(times_s) // 2], 1000 * times_s[-1]
            print(f'{load:<10}{fault:<18}{median_ms:>7.0f} ms{worst_ms:>7.0f} ms')
            name = f'worst time to safety, {fault}, {load} (s)'
            targets.append(Target(name, times_s[-1], '<=', bound_s))
        quiet = found['false alarms']
        print(
            f'{load:<10}{quiet["tasks"]} tasks in {quiet["minutes"]:g} min without a fault: '
            f'{quiet["failed"]} failed, {quiet["alarms"]} alarms'
        )
        targets.append(Target(f'false alarms, {load}', quiet['alarms'], '<=', 0))
    save('deaths', figures, targets, path=options.json)


if __name__ == '__main__':
    main()
