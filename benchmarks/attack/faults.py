"""Does to the fleet what the schedule says, and notes what must hold and may fail meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.attack.fleet import CLIENTS, EXECUTORS, MOCKS, ROBOTS, STEPPED
from benchmarks.attack.hostile import GOALS, damaged
from benchmarks.attack.rules import Breach, Harm, Loss
from benchmarks.attack.schedule import SETTLE_S
from benchmarks.common import worker_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from benchmarks.attack.fleet import Fleet, Run
    from benchmarks.attack.schedule import Fault, Kind
    from timely_llm_ros.demo import Child

WITHOUT_PLANNER_S = 0.5
WITHOUT_WORKER_S = 0.3
"""How long a robot may move on without a planner, and without its worker (s)."""

DELAY_S = 0.02
"""Greatest delay of a bad link (s); a robot hears that much later that its planner is gone."""

RESENDS_S = 0.3
"""How much longer a Tello may take whose radio loses packets (s): it is told again each 0.1 s."""

YOUNG_S = 5.0
"""A program of this age (s) may not have begun to handle signals."""

SECOND_LIMIT_S = 40.0
"""How long a second program of a name may take to leave (s)."""

NOTICE_LIMIT_S = 3.0
"""How long a recorder whose disk was full may take to say so (s); then it has not noticed."""

DISK_FULL = b'No space left on device'

READ_LIMIT_S = 60.0
READ_LIMIT_MB = 200.0
"""What reading a damaged trace may take."""

_PEAK = 'peak memory (kB):'
_LRTRACE = f"""
import sys
from pathlib import Path
from lrtrace.cli import main
try:
    code = main(sys.argv[1:])
finally:
    status = Path('/proc/self/status').read_text()
    print('{_PEAK}', status.partition('VmHWM:')[2].split()[0], file=sys.stderr)
sys.exit(code)
"""
"""Tells its own peak: what a parent is told of its child has the parent's own in it."""

NAMES = tuple(ROBOTS)


class Attacker:
    """Carries out faults.

    Args:
        fleet: Whom it attacks.
        kinds: The kinds of faults by name.
        link: The program between the two hosts; None where there is but one host.
    """

    def __init__(self, fleet: Fleet, kinds: dict[str, Kind], link: Child | None) -> None:
        self.losses: list[Loss] = []
        self.harms: list[Harm] = []
        self.unguarded: list[Harm] = []
        """Times in which nobody is left who could make these robots safe."""
        self.breaches: list[Breach] = []
        self.disk_full: list[tuple[float, float]] = []
        self._spoilt_until_s = 0.0
        self._cut, self._quality = False, dict[str, float]()
        self._fleet, self._kinds, self._link = fleet, kinds, link
        self._ways: dict[str, Callable[[Fault, random.Random], Awaitable[None]]] = {
            'planner killed': self._kill_planner,
            'planner stopped': self._stop_planner,
            'planner interrupted': self._interrupt,
            'worker killed': self._lose_worker,
            'worker hung': self._lose_worker,
            'guard killed': self._lose_guard,
            'worker and guard killed': self._lose_both,
            'executor interrupted': self._interrupt,
            'client killed': self._kill,
            'recorder killed': self._kill,
            'recorder interrupted': self._interrupt,
            'second planner': self._double,
            'second executor': self._double,
            'disk full': self._fill_disk,
            'link cut': self._cut_link,
            'bad link': self._spoil_link,
            'stranger': self._let_lie,
            'hostile goals': self._send_hostile,
            'clock steps': self._step_clock,
            'damaged traces': self._damage_traces,
        }

    async def attack(self, fault: Fault) -> None:
        """Carry out one fault, until what it broke is at work again."""
        began_s = time.monotonic()
        await self._ways[fault.kind](fault, random.Random(fault.seed))
        await self._fleet.until_up(fault.target or fault.kind.split()[0])
        robots = EXECUTORS.get(fault.target) or CLIENTS.get(fault.target) or NAMES
        up_s = time.monotonic()
        if fault.kind == 'worker and guard killed':
            self.unguarded.append(Harm(robots, began_s, up_s, str(fault)))
        if self._kinds[fault.kind].harms:
            self.harms.append(Harm(robots, began_s, up_s + SETTLE_S, str(fault)))

    def _run_of(self, fault: Fault) -> Run:
        name = fault.target or fault.kind.split()[0]
        run = self._fleet.running[name]
        run.wanted_s = time.monotonic()
        return run

    async def _gone(self, run: Run, limit_s: float = 20.0) -> None:
        """Wait for a program's end; one that does not end is told to say where its threads are."""
        process, end_s = run.child.process, time.monotonic() + limit_s
        while process.poll() is None and time.monotonic() < end_s:
            await asyncio.sleep(0.01)
        if process.poll() is None:
            for number in (signal.SIGABRT, signal.SIGKILL):
                process.send_signal(number)
                with suppress(subprocess.TimeoutExpired):
                    await asyncio.to_thread(process.wait, 5.0)
            what = f'{run.name} has not ended after {limit_s:g} s:\n{run.child.log_tail(60)}'
            self.breaches.append(Breach(time.monotonic(), 'programs end', what))
        self._fleet.note_end(run)

    async def _again(self, run: Run, after_s: float) -> None:
        await self._gone(run)
        await asyncio.sleep(after_s)
        self._fleet.launch(run.name)

    async def _kill(self, fault: Fault, _: random.Random) -> None:
        run = self._run_of(fault)
        run.child.process.kill()
        await self._again(run, fault.lasts_s)

    async def _interrupt(self, fault: Fault, rng: random.Random) -> None:
        run = self._run_of(fault)
        run.child.process.send_signal(rng.choice((signal.SIGINT, signal.SIGTERM)))
        await self._gone(run)
        # Python has no handler of its own until it has started.
        young = time.monotonic() - run.began_s < YOUNG_S
        if run.code and not (young and run.code < 0):
            what = f'{run.name} interrupted: exit code {run.code}, expected 0'
            self.breaches.append(Breach(time.monotonic(), 'programs end', what))
        await asyncio.sleep(fault.lasts_s)
        self._fleet.launch(run.name)

    async def _kill_planner(self, fault: Fault, _: random.Random) -> None:
        run, began_s = self._run_of(fault), time.monotonic()
        run.child.process.kill()
        await self._again(run, fault.lasts_s)
        self._lost(NAMES, began_s, WITHOUT_PLANNER_S, fault)

    async def _stop_planner(self, fault: Fault, _: random.Random) -> None:
        process, began_s = self._fleet.running['planner'].child.process, time.monotonic()
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(fault.lasts_s)
        self._lost(NAMES, began_s, WITHOUT_PLANNER_S, fault)
        process.send_signal(signal.SIGCONT)

    async def _lose_worker(self, fault: Fault, _: random.Random) -> None:
        run = self._run_of(fault)
        worker = await worker_of(run.child)
        number = signal.SIGSTOP if fault.kind == 'worker hung' else signal.SIGKILL
        began_s = time.monotonic()
        os.kill(worker, number)
        await self._again(run, fault.lasts_s)
        self._lost(EXECUTORS[fault.target], began_s, WITHOUT_WORKER_S, fault)

    async def _lose_guard(self, fault: Fault, _: random.Random) -> None:
        run = self._run_of(fault)
        worker, began_s = await worker_of(run.child), time.monotonic()
        run.child.process.kill()
        while not _ended(worker):
            if time.monotonic() > began_s + 20.0:
                what = f'worker of {run.name} lives 20 s after its guard'
                self.breaches.append(Breach(time.monotonic(), 'programs end', what))
                os.kill(worker, signal.SIGKILL)
                break
            await asyncio.sleep(0.01)
        await self._again(run, fault.lasts_s)
        self._lost(EXECUTORS[fault.target], began_s, WITHOUT_WORKER_S, fault)

    async def _lose_both(self, fault: Fault, _: random.Random) -> None:
        run = self._run_of(fault)
        worker = await worker_of(run.child)
        run.child.process.send_signal(signal.SIGSTOP)
        os.kill(worker, signal.SIGKILL)
        run.child.process.kill()
        await self._again(run, fault.lasts_s)

    async def _double(self, fault: Fault, _: random.Random) -> None:
        name = fault.target or 'planner'
        run = self._fleet.launch(name, f'second_{name}')
        run.wanted_s = run.began_s
        first = self._fleet.running[name]
        await self._gone(run, SECOND_LIMIT_S)
        # Where the first one died by itself, the second may serve.
        if run.code != 1 and first.ended_s is None:
            what = f'{run.name}: exit code {run.code}, expected 1'
            self.breaches.append(Breach(time.monotonic(), 'one of a name', what))

    async def _fill_disk(self, fault: Fault, _: random.Random) -> None:
        run, began_s = self._fleet.running['recorder'], time.monotonic()
        run.wanted_s = began_s
        ballast = self._fleet.traces / 'ballast'
        try:
            with ballast.open('wb', buffering=0) as file:
                while True:
                    file.write(bytes(1 << 12))
        except OSError:
            await asyncio.sleep(fault.lasts_s)
        ballast.unlink()
        emptied_s = time.monotonic()
        self.disk_full.append((began_s, emptied_s))
        while not run.has_said(DISK_FULL) and time.monotonic() < emptied_s + NOTICE_LIMIT_S:
            await asyncio.sleep(0.05)
        if run.has_said(DISK_FULL):
            await self._again(run, 0.0)
        run.wanted_s = None

    async def _cut_link(self, fault: Fault, _: random.Random) -> None:
        began_s = time.monotonic()
        self._cut = True
        self._set_link()
        await asyncio.sleep(fault.lasts_s)
        self._lost(NAMES, began_s, WITHOUT_PLANNER_S, fault)
        self._cut = False
        self._set_link()

    async def _spoil_link(self, fault: Fault, rng: random.Random) -> None:
        self._spoilt_until_s = time.monotonic() + fault.lasts_s
        self._quality = {
            'loss': rng.uniform(0.0, 0.1),
            'double': rng.uniform(0.0, 0.1),
            'delay_s': DELAY_S,
        }
        self._set_link()
        for host in MOCKS.values():
            self._fleet.charge(host, f'loss {rng.uniform(0.0, 0.1):.3f}')
            self._fleet.charge(host, f'double {rng.uniform(0.0, 0.2):.3f}')
        await asyncio.sleep(fault.lasts_s)
        self._quality = {}
        self._set_link()
        for host in MOCKS.values():
            self._fleet.charge(host, 'heal')

    def _set_link(self) -> None:
        quality = {'loss': 1.0} if self._cut else self._quality
        if self._link is not None and self._link.process.stdin is not None:
            self._link.process.stdin.write(json.dumps(quality).encode() + b'\n')
            self._link.process.stdin.flush()

    async def _let_lie(self, fault: Fault, _: random.Random) -> None:
        seconds = ['--seconds', f'{fault.lasts_s:.1f}', '--robots', *map(':'.join, ROBOTS.items())]
        command = [sys.executable, '-m', 'benchmarks.attack.stranger', *seconds]
        child = self._fleet.children.start('stranger', command)
        child.expected_to_end = True
        end_s = time.monotonic() + fault.lasts_s + 20.0
        while child.process.poll() is None and time.monotonic() < end_s:
            await asyncio.sleep(0.05)
        await self._fleet.children.stop(child)

    async def _send_hostile(self, fault: Fault, rng: random.Random) -> None:
        count = 20
        for make in rng.choices(GOALS, k=count):
            client = rng.choice(list(CLIENTS))
            task = {'robot': rng.choice(NAMES), 'when_busy': 'queue', **make(rng)}
            if client in self._fleet.ready:
                self._fleet.send(client, task['robot'], task, hostile=True)
            await asyncio.sleep(fault.lasts_s / count)

    async def _step_clock(self, fault: Fault, rng: random.Random) -> None:
        for name in STEPPED:
            self._fleet.clocks.step(name, rng.choice((-3600, 0, 3600)))
        await asyncio.sleep(fault.lasts_s)

    async def _damage_traces(self, _: Fault, rng: random.Random) -> None:
        closed = sorted(self._fleet.folder.glob('kept/*.mcap'))
        if not closed:
            return
        data = await asyncio.to_thread(closed[-1].read_bytes)
        file = self._fleet.folder / 'damaged.mcap'
        for verb in ('info', 'cat', 'info'):
            file.write_bytes(damaged(data, rng))
            await self._read_damaged(verb, file)

    async def _read_damaged(self, verb: str, file: Path) -> None:
        command = (verb, str(file))
        code, errors, memory_mb = await asyncio.to_thread(_read_within_bounds, command)
        if code not in (0, 1, 2) or 'Traceback' in errors or memory_mb > READ_LIMIT_MB:
            kept = file.with_name(f'damaged_{time.monotonic():.0f}.mcap')
            file.rename(kept)
            what = f'lrtrace {verb} {kept}: {code}, {memory_mb:.0f} MB: {errors[-300:]}'
            self.breaches.append(Breach(time.monotonic(), 'damage is told', what))

    def _lost(self, robots: tuple[str, ...], began_s: float, limit_s: float, fault: Fault) -> None:
        late_s = DELAY_S if limit_s == WITHOUT_PLANNER_S and self._link is not None else 0.0
        for robot in robots:
            resend_s = RESENDS_S if robot in MOCKS and began_s < self._spoilt_until_s else 0.0
            limit = limit_s + late_s + resend_s
            self.losses.append(Loss(robot, began_s, time.monotonic(), limit, str(fault)))


def _ended(orphan: int) -> bool:
    """Return whether a process that this one has adopted has ended."""
    try:
        return os.waitpid(orphan, os.WNOHANG)[0] == orphan
    except ChildProcessError:
        return not Path(f'/proc/{orphan}').exists()


def _read_within_bounds(command: Sequence[str]) -> tuple[int, str, float]:
    """Run ``lrtrace``, at most for its time; return its exit code, errors and peak memory (MB)."""
    done = subprocess.Popen(
        [sys.executable, '-c', _LRTRACE, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors='replace',
    )
    try:
        _, errors = done.communicate(timeout=READ_LIMIT_S)
    except subprocess.TimeoutExpired:
        done.kill()
        _, errors = done.communicate()
        return done.returncode, f'Traceback: no end: {errors}', 0.0
    errors, _, peak_kb = errors.rpartition(_PEAK)
    return done.returncode, errors, float(peak_kb or 'inf') / 1024
