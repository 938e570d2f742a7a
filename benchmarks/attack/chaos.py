"""Attacks a whole fleet over real ROS 2, and watches whether the rules hold.

Eight robots get tasks without a rest while processes are killed, stopped and started twice, a
stranger lies, the link between planner and robots loses, doubles and delays packets or is cut, the
disk is full, clocks step, goals are hostile and traces are damaged. A rule that is broken is
printed with the minute; the same seed repeats the attack.

    python -m benchmarks.attack.chaos [--minutes 10] [--seed 0]
    python -m benchmarks.attack.chaos --calm --minutes 60

With ``--calm`` there is no fault: the fleet works, and a line through what each program takes in
the second half of the time says what it grows by in an hour.

The exit code is 1 if a rule was broken. The robots are on a host of their own where the system
allows network namespaces; elsewhere no link is cut.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress

from benchmarks.attack import rules
from benchmarks.attack.faults import Attacker
from benchmarks.attack.fleet import CLIENTS, EXECUTORS, MOCKS, ROBOTS, Fleet
from benchmarks.attack.processes import (
    SLOPES,
    adopt_orphans,
    grown,
    left_over,
    slope_per_hour,
)
from benchmarks.attack.schedule import Fault, kinds, schedule
from benchmarks.attack.traces import check_trace
from benchmarks.common import (
    FROM_ZERO,
    POSITIVE,
    Sample,
    Target,
    arguments,
    enter_own_host,
    sample,
    save,
)
from timely_llm_ros.demo import Children
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.testing import free_domain

if TYPE_CHECKING:
    from benchmarks.attack.rules import Breach
    from timely_llm_ros.demo import Child

MODULE = 'benchmarks.attack.chaos'
READY_LIMIT_S = 120.0
SAMPLE_S = 5.0
SETTLED_S = 60.0
"""What happened this long ago is judged while the attack goes on: nothing that excuses it is to
come (s)."""
TRACES_MB = 192
NEEDS_HOSTS = ('bad link', 'link cut', 'disk full')
IDLE_LIMITS_S = dict.fromkeys(ROBOTS, 60.0) | dict.fromkeys(MOCKS, 300.0)
"""How long a robot may have nothing done (s); a Tello flies in real time."""


class Chaos:
    """One attack, from the first start to the verdict."""

    def __init__(self, fleet: Fleet, attacker: Attacker) -> None:
        self.fleet, self.attacker = fleet, attacker
        self.breaches: list[Breach] = []
        self.began_s = self.ended_s = 0.0
        self._samples: dict[int, list[Sample]] = defaultdict(list)
        self._checked: set[int] = set()
        self._told: set[Breach] = set()
        self._alone = asyncio.Lock()

    async def run(self, faults: list[Fault], length_s: float, progress: Progress) -> None:
        """Attack; return when it is over and everything has ended."""
        await self.fleet.start()
        await self._until_ready()
        self.began_s = time.monotonic()
        row = progress.add_task('attack', total=length_s)
        watch = asyncio.create_task(self._watch(row, progress))
        jobs = [asyncio.create_task(self._at(fault, progress)) for fault in faults]
        try:
            await asyncio.gather(*jobs)
            await asyncio.sleep(max(0.0, self.began_s + length_s - time.monotonic()))
        finally:
            self.ended_s = time.monotonic()
            watch.cancel()
            await self.fleet.stop()
        await self._check_traces()

    async def _until_ready(self) -> None:
        end_s = time.monotonic() + READY_LIMIT_S
        while len(self.fleet.ready) < len(CLIENTS):
            if time.monotonic() > end_s:
                raise TimeoutError(f'clients that are ready: {self.fleet.ready}, expected all')
            await asyncio.sleep(0.1)

    async def _at(self, fault: Fault, progress: Progress) -> None:
        await asyncio.sleep(max(0.0, self.began_s + fault.at_s - time.monotonic()))
        progress.console.print(f'{fault}', highlight=False)
        # One that takes longer than planned is not met by the next of those that come alone.
        async with self._alone if fault.alone else nullcontext():
            await self.attacker.attack(fault)

    async def _watch(self, row: Any, progress: Progress) -> None:
        sampled_s = 0.0
        told_s = self.began_s
        while True:
            now_s = time.monotonic()
            progress.update(row, completed=now_s - self.began_s)
            for run in self.fleet.poll():
                what = f'{run.name}: exit code {run.code}: {run.child.log_tail(3)}'
                self.breaches.append(rules.Breach(now_s, 'programs live', what))
                self.fleet.launch(run.name)
            if now_s > sampled_s + SAMPLE_S:
                sampled_s = now_s
                for number, run in enumerate(self.fleet.runs):
                    if run.ended_s is None:
                        taken = sample(run.child.process.pid, now_s)
                        self._samples[number] += [taken] if taken else []
                await self._check_traces()
            if now_s > told_s + SETTLED_S:
                told_s = now_s
                self._tell(progress, now_s - SETTLED_S)
            await asyncio.sleep(0.1)

    def _tell(self, progress: Progress, until_s: float) -> None:
        """Print what is known to have broken a rule, once."""
        known = [*self.breaches, *self.attacker.breaches, *self._unsafe(until_s)]
        for breach in known:
            if breach not in self._told:
                self._told.add(breach)
                progress.console.print(breach_line(breach, self.began_s), highlight=False)

    def _unsafe(self, until_s: float) -> list[Breach]:
        """Return where a robot was not safe in time, in what was over at a time."""
        motions = {robot: rules.motions(self.fleet.journal(robot)) for robot in ROBOTS}
        return [
            breach
            for loss in self.attacker.losses
            if loss.until_s <= until_s
            for breach in rules.unsafe(loss, motions, self.attacker.unguarded)
        ]

    async def _check_traces(self) -> None:
        """Check the traces of recorders that have ended since the last call."""
        recorders = [run for run in self.fleet.runs if run.name == 'recorder']
        for number, run in enumerate(recorders, 1):
            folder = self.fleet.traces / f'trace_{number}'
            if run.ended_s is None or number in self._checked or not folder.exists():
                continue
            self._checked.add(number)
            full = self.attacker.disk_full
            self.breaches += await check_trace(self.fleet, run, folder, full)

    def slopes(self) -> dict[str, dict[str, float]]:
        """Return by how much each program grows in an hour."""
        return {
            self.fleet.runs[number].name: {what: slope_per_hour(samples, what) for what in SLOPES}
            for number, samples in self._samples.items()
        }

    def judge(self) -> list[Breach]:
        """Return every breach, the first one first."""
        fleet, attacker = self.fleet, self.attacker
        tasks = list(fleet.tasks.values())
        found = [*self.breaches, *attacker.breaches, *self._unsafe(math.inf)]
        journals = {robot: fleet.journal(robot) for robot in ROBOTS}
        for robot, lines in journals.items():
            found += rules.invalid_calls(robot, lines, find_skill_set(ROBOTS[robot]))
            if robot not in MOCKS:
                found += rules.first_actions(robot, lines)
                found += rules.repeated_calls(robot, lines)
        found += rules.ends(tasks, self.ended_s)
        found += rules.repeated_events(fleet.events)
        found += rules.unexplained(tasks, attacker.harms)
        found += rules.idle(tasks, journals, IDLE_LIMITS_S, self.began_s, self.ended_s)
        found += rules.logs(fleet.runs)
        found += rules.audit_logs(sorted(fleet.folder.glob('*.audit.jsonl')), tasks)
        for number, samples in self._samples.items():
            found += grown(fleet.runs[number].name, samples)
        now_s = time.monotonic()
        found += [rules.Breach(now_s, 'nothing is left', text) for text in left_over()]
        return sorted(found, key=lambda breach: breach.at_s)


async def attack(
    faults: list[Fault], length_s: float, seed: int, two_hosts: bool, progress: Progress
) -> tuple[Chaos, list[Breach]]:
    """Run an attack; return it with the breaches."""
    with tempfile.TemporaryDirectory(prefix='timely-chaos-') as name:
        folder = Path(name)
        traces = folder / 'traces'
        traces.mkdir()
        links, link = Children(folder), None
        if two_hosts:
            options = ['-t', 'tmpfs', '-o', f'size={TRACES_MB}m', 'tmpfs', str(traces)]
            subprocess.run(['mount', *options], check=True)
            link = await _start_link(links, seed)
        link_pid = link.process.pid if link else None
        fleet = Fleet(folder, traces, seed=seed, link_pid=link_pid)
        chaos = Chaos(fleet, Attacker(fleet, kinds(list(EXECUTORS), list(CLIENTS)), link))
        try:
            await chaos.run(faults, length_s, progress)
            await links.stop_all()
            breaches = chaos.judge()
            if breaches:
                _keep_logs(folder)
            return chaos, breaches
        finally:
            await links.stop_all()
            if two_hosts:
                subprocess.run(['umount', str(traces)], check=True)


async def _start_link(links: Children, seed: int) -> Child:
    command = [sys.executable, '-m', 'benchmarks.attack.network', '--seed', str(seed)]
    link = links.start('link', command, pipes=True)
    assert link.process.stdout is not None
    if await asyncio.to_thread(link.process.stdout.readline) != b'up\n':
        raise OSError(f'link: {link.log_tail()}')
    return link


def _keep_logs(folder: Path) -> None:
    kept = Path(tempfile.mkdtemp(prefix='timely-chaos-breach-'))
    for file in folder.glob('*.*'):
        if file.is_file():
            (kept / file.name).write_bytes(file.read_bytes())
    print(f'logs and journals: {kept}', file=sys.stderr)


def breach_line(breach: Breach, began_s: float) -> str:
    """Return a breach with the minute of the attack."""
    return f'BREACH minute {(breach.at_s - began_s) / 60:.2f}: {breach.rule}: {breach.what}'


def table(chaos: Chaos, faults: list[Fault], breaches: list[Breach]) -> dict[str, Any]:
    """Print what happened; return it as figures."""
    tasks = [task for task in chaos.fleet.tasks.values() if not task.hostile]
    ends = Counter(task.ends[0][1] if task.ends else 'client or planner gone' for task in tasks)
    hostile = Counter(
        task.ends[0][1] if task.ends else 'client or planner gone'
        for task in chaos.fleet.tasks.values()
        if task.hostile
    )
    done = Counter(fault.kind for fault in faults)
    print(f'{"fault":<28}{"times":>6}')
    for kind, times in sorted(done.items()):
        print(f'{kind:<28}{times:>6}')
    print(f'tasks {len(tasks)}: ' + ', '.join(f'{n} {how}' for how, n in ends.most_common()))
    errors = Counter(
        re.sub(r'[0-9a-f]{32}|[0-9.]+|(drone|arm|tello)_', '.', task.ends[0][2])[:110]
        for task in tasks
        if task.ends and task.ends[0][2]
    )
    for error, times in errors.most_common(12):
        print(f'{times:>6} {error}')
    ends_s: dict[str, float] = {}
    for run in chaos.fleet.runs:
        if run.code == 0 and run.wanted_s is not None and run.ended_s is not None:
            ends_s[run.name] = max(ends_s.get(run.name, 0.0), run.ended_s - run.wanted_s)
    print('longest from an interrupt to the end: ', end='')
    print(', '.join(f'{name} {time_s:.1f} s' for name, time_s in ends_s.items()))
    print('hostile goals: ' + ', '.join(f'{n} {how}' for how, n in hostile.most_common()))
    for breach in breaches[:40]:
        print(breach_line(breach, chaos.began_s))
    return {
        'faults': dict(done),
        'tasks': dict(ends),
        'hostile goals': dict(hostile),
        'longest end': ends_s,
        'breaches': [
            asdict(breach) | {'minute': (breach.at_s - chaos.began_s) / 60} for breach in breaches
        ],
    }


def growth_targets(slopes: dict[str, dict[str, float]]) -> list[Target]:
    """Print what programs grow by; return the bounds that hold for it."""
    targets = []
    print(f'{"growth per hour":<16}' + ''.join(f'{what:>14}' for what in SLOPES))
    for name, found in slopes.items():
        print(f'{name:<16}' + ''.join(f'{value:>14.2f}' for value in found.values()))
        targets += [
            Target(f'{name}: {what} per hour', found[what], '<=', bound)
            for what, bound in SLOPES.items()
        ]
    return targets


def main() -> int:
    """Attack and judge; return the exit code."""
    parser = arguments(__doc__)
    parser.add_argument('--minutes', type=POSITIVE, default=10.0, help='how long (default: 10)')
    parser.add_argument(
        '--seed', type=FROM_ZERO, default=None, help='of the attack (default: drawn)'
    )
    parser.add_argument('--calm', action='store_true', help='no faults: what grows?')
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(10_000)
        sys.argv += ['--seed', str(options.seed)]
    two_hosts = enter_own_host(MODULE, sys.argv[1:])
    adopt_orphans()
    os.environ['ROS_DOMAIN_ID'] = str(free_domain())
    # Not LOCALHOST, with which Fast DDS speaks through shared memory whatever it is told.
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'SUBNET'
    known = kinds(list(EXECUTORS), list(CLIENTS))
    if not two_hosts:
        print('no network namespaces here: no bad link, no cut, no full disk', file=sys.stderr)
        known = {name: kind for name, kind in known.items() if name not in NEEDS_HOSTS}
    length_s = 60.0 * options.minutes
    faults = [] if options.calm else schedule(known, seed=options.seed, length_s=length_s)
    with Progress(console=Console(stderr=True)) as progress:
        run = attack(faults, length_s, options.seed, two_hosts, progress)
        chaos, breaches = asyncio.run(run)
    figures = table(chaos, faults, breaches)
    targets = [Target('breaches', len(breaches), '<=', 0)]
    if options.calm:
        figures['growth per hour'] = slopes = chaos.slopes()
        targets += growth_targets(slopes)
    verdict = f'{len(breaches)} breaches' if breaches else 'no breach'
    print(f'seed {options.seed}, {options.minutes:g} minutes: {verdict}')
    if options.json:
        figures |= {'seed': options.seed, 'minutes': options.minutes}
        save('soak' if options.calm else 'chaos', figures, targets, path=options.json)
    return not all(target.ok for target in targets)


if __name__ == '__main__':
    sys.exit(main())
