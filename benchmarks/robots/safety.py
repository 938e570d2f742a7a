"""How fast robots are safe after a fault, by the record of the mocks themselves.

Real drivers, real djitellopy over UDP, the real Indy SDK over gRPC; mocks that move at a real one's
speed. A fault of each kind comes in the middle of a long move, many times, with the drivers'
options as they are by default; on the idle machine, and beside processes that never rest. Safe is
the moment from which an aircraft hovers, lands or lies still after it was told so, and an arm
stands still. Times are on the machine's monotonic clock.

    python -m benchmarks.robots.safety [--trials 10] [--load 8]
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import signal
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import COUNT, FROM_ZERO, Target, arguments, busy, save
from benchmarks.robots import arm_faults as arms
from timely_llm_ros.clock import WallClock
from timely_llm_ros.drivers.tello import TelloDriver, TelloOptions
from timely_llm_ros.errors import RobotUnavailableError
from timely_llm_ros.execution import (
    ExecutorLimits,
    SegmentExecutor,
    SegmentOutcome,
    SegmentProgress,
)
from timely_llm_ros.processes import take_precedence
from timely_llm_ros.skills import Call, Scene, Segment, parse
from timely_llm_ros.skills.loading import find_skill_set

ROOT = Path(__file__).resolve().parents[2]
SKILLS = find_skill_set('tello')
SAFE_PHASES = ('ground', 'hover', 'landing', 'wreck')
HALTS = ('rc 0 0 0 0', 'stop', 'land', 'emergency')
TARGET_S = 0.5
DRIVER_LOST_S = 0.3
"""The same where nobody drives the robot any more."""
MARGIN_S = 0.5
"""How much longer than expected a move may take where it should take too long (s)."""

KINDS = {
    'stopped by a person': 'from the call that stops it',
    'emergency': 'from the call that cuts the motors',
    'low battery': 'from the moment the charge is low',
    'refusal': 'from the command that it refuses',
    'timeout': 'from the end of the time that the move may take',
    'silence': 'from the moment it falls silent; 0.4 s after its last state it counts as lost',
    'out of reach': 'from the moment it can be reached again',
    'driver killed': 'from kill -9 of the process that flies it',
    'driver hung': 'from when the process that flies it stands still',
}
"""What a time is counted from."""


@dataclass(slots=True)
class Mocks:
    """The process of the mock aircraft, and what it writes down."""

    process: asyncio.subprocess.Process
    journal: Path
    _read_bytes: int = 0
    _lines: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))

    def fault(self, host: str, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f'{host} {text}\n'.encode())

    def lines(self, host: str) -> list[dict[str, Any]]:
        """Return what happened to one of them so far, in the order of its record."""
        if self.journal.exists():
            with self.journal.open('rb') as file:
                file.seek(self._read_bytes)
                for line in file:
                    if not line.endswith(b'\n'):
                        break
                    self._read_bytes += len(line)
                    entry = json.loads(line)
                    self._lines[entry['host']].append(entry)
        return self._lines[host]

    def phase(self, host: str) -> str:
        phases = [line['what'] for line in self.lines(host) if line['event'] == 'phase']
        return phases[-1] if phases else 'ground'

    async def until_phase(self, host: str, *phases: str) -> None:
        await arms.until(lambda: self.phase(host) in phases, f'{host} in {phases}')

    async def until_fault(self, host: str, text: str) -> float:
        """Set a fault; return when it took effect (s)."""
        before = len(self.lines(host))
        self.fault(host, text)

        def took() -> list[float]:
            new = self.lines(host)[before:]
            return [line['t'] for line in new if (line['event'], line['what']) == ('fault', text)]

        return float((await arms.until(took, text))[0])

    def safe_s(self, host: str, since_s: float) -> float | None:
        """Return when it was told to halt and did (s), after a time; None if not yet."""
        phase, told_s, safe_s = 'ground', None, None
        for line in sorted(self.lines(host), key=lambda one: one['t']):
            if line['event'] == 'phase':
                phase = line['what']
            if line['t'] < since_s:
                continue
            if line['event'] == 'command' and line['what'] in HALTS and told_s is None:
                told_s = line['t']
            if phase not in SAFE_PHASES:
                safe_s = None
            elif safe_s is None and told_s is not None:
                safe_s = line['t']
        return safe_s


class Pilot:
    """A driver and its executor, in this process, that fly one mock into long moves."""

    def __init__(self, mocks: Mocks, host: str, local: str, limits: ExecutorLimits) -> None:
        self.mocks, self.host = mocks, host
        self.false_alarms = 0
        self.called_s = 0.0
        """When the latest call began (s)."""
        self._plans = 0
        self._driver = TelloDriver(TelloOptions(address=host, local_address=local))
        self.executor = SegmentExecutor(self._driver, SKILLS, WallClock(), limits)

    def run(self, text: str) -> asyncio.Task[SegmentOutcome]:
        self._plans += 1
        segment = Segment(0, text, parse(text, SKILLS, ()), 1)
        return asyncio.create_task(
            self.executor.execute(str(self._plans), segment, Scene(), self._note)
        )

    def expected_s(self, text: str) -> float:
        (call,) = parse(text, SKILLS, ())
        assert isinstance(call, Call)
        return SKILLS.skills[call.skill].duration.expected_s(call, Scene())

    def _note(self, progress: SegmentProgress) -> None:
        if progress.elapsed_s < 0.05:
            self.called_s = time.monotonic() - progress.elapsed_s

    async def move(self, text: str = 'move_forward(500);') -> asyncio.Task[SegmentOutcome]:
        """Be in the middle of a move."""
        while True:
            if not self.executor.connected:
                await self._connect()
            if (await self.run('takeoff;')).succeeded:
                segment = self.run(text)
                await arms.until(
                    lambda: segment.done() or self.mocks.phase(self.host) == 'move',  # noqa: B023
                    f'{self.host} moves',
                )
                if not segment.done():
                    return segment
            self.false_alarms += 1
            if self.false_alarms > 20:
                raise RuntimeError(f'{self.host} does not get to fly')

    async def _connect(self) -> None:
        while True:
            with contextlib.suppress(RobotUnavailableError):
                await self.executor.start()
                return


async def fault_of(kind: str, pilot: Pilot, rng: random.Random) -> tuple[float, str]:
    """Have it go wrong once; return from when it counts (s), and the outcome's text."""
    mocks, host = pilot.mocks, pilot.host
    if kind == 'refusal':
        await mocks.until_fault(host, 'refuse left error Not joystick')
        segment = await pilot.move('move_forward(20);move_left(100);')
        outcome = await segment
        refused = [line['t'] for line in mocks.lines(host) if line['what'] == 'left 100']
        return refused[-1], outcome.ending.message
    if kind == 'timeout':
        await mocks.until_fault(host, 'stall')
        segment = await pilot.move('move_forward(20);')
        outcome = await segment
        late_s = pilot.called_s + MARGIN_S + pilot.expected_s('move_forward(20);')
        return late_s, outcome.ending.message
    while True:
        segment = await pilot.move()
        await asyncio.sleep(rng.uniform(0.2, 1.0))
        if not segment.done():
            break
        pilot.false_alarms += 1
    match kind:
        case 'stopped by a person':
            since_s = time.monotonic()
            await pilot.executor.stop()
        case 'emergency':
            since_s = time.monotonic()
            await pilot.executor.cut_power('benchmark')
        case 'low battery':
            since_s = await mocks.until_fault(host, 'battery 9')
        case 'silence':
            since_s = await mocks.until_fault(host, 'mute')
        case _:
            assert kind == 'out of reach'
            await mocks.until_fault(host, 'lost')
            await segment
            since_s = await mocks.until_fault(host, 'heal')
    return since_s, (await segment).ending.message


async def in_process(
    kind: str, mocks: Mocks, hosts: list[str], local: str, trials: int
) -> tuple[list[float], str]:
    """Measure a kind of fault; an emergency leaves a wreck, so each has an aircraft of its own."""
    limits = ExecutorLimits()
    if kind == 'timeout':
        limits = ExecutorLimits(timeout_factor=1.0, timeout_margin_s=MARGIN_S)
    rng = random.Random(kind)
    times_s, error = [], ''
    pilot = Pilot(mocks, hosts[0], local, limits)
    await pilot.executor.start()
    for trial in range(trials):
        if kind == 'emergency' and trial:
            await pilot.executor.close()
            pilot = Pilot(mocks, hosts[trial], local, limits)
            await pilot.executor.start()
        since_s, error = await fault_of(kind, pilot, rng)
        host = pilot.host
        safe_s = await arms.until(lambda: mocks.safe_s(host, since_s), f'{kind}: safe')  # noqa: B023
        times_s.append(safe_s - since_s)
        await mocks.until_fault(host, 'heal')
        await mocks.until_fault(host, 'battery 87')
    await pilot.executor.close()
    return times_s, error


LOSSES = {'driver killed': signal.SIGKILL, 'driver hung': signal.SIGSTOP}


async def lost(
    kind: str, mocks: Mocks, host: str, local: str, trials: int
) -> tuple[list[float], str]:
    """Measure the loss of the process that flies."""
    rng = random.Random(kind)
    times_s = []
    for _ in range(trials):
        program = await asyncio.create_subprocess_exec(
            sys.executable,
            '-m',
            'benchmarks.robots.tello_pilot',
            host,
            local,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=os.environ | {'PYTHONPATH': str(ROOT)},
        )
        assert program.stdout is not None
        worker = int(await program.stdout.readline())
        await mocks.until_phase(host, 'move')
        await asyncio.sleep(rng.uniform(0.2, 1.0))
        since_s = time.monotonic()
        os.kill(worker, LOSSES[kind])
        safe_s = await arms.until(lambda: mocks.safe_s(host, since_s), f'{kind}: safe')  # noqa: B023
        times_s.append(safe_s - since_s)
        await program.wait()
        await mocks.until_phase(host, 'ground')
        await mocks.until_fault(host, 'battery 87')
    return times_s, 'the guard opened a driver of its own'


async def measure(trials: int, folder: Path) -> dict[str, dict[str, Any]]:
    """Measure the kinds of fault, all at once as in a fleet but for losses; return figures."""
    net = f'127.{random.SystemRandom().randrange(16, 250)}.{random.SystemRandom().randrange(256)}'
    addresses = iter(f'{net}.{number}' for number in range(1, 255))
    local, lost_local = next(addresses), next(addresses)
    hosts = {
        kind: [next(addresses) for _ in range(trials if kind == 'emergency' else 1)]
        for kind in KINDS
    }
    command = [sys.executable, '-m', 'timely_llm_ros.drivers.tello.mock', '--control']
    command += ['--journal', str(folder / 'journal')]
    for host in (host for group in hosts.values() for host in group):
        command += ['--host', host]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        env=os.environ | {'PYTHONPATH': str(ROOT)},
    )
    mocks = Mocks(process, folder / 'journal')
    try:
        first = hosts['silence'][0]
        await mocks.until_fault(first, 'heal')
        kinds = [kind for kind in KINDS if kind not in LOSSES]
        results = await asyncio.gather(
            *(in_process(kind, mocks, hosts[kind], local, trials) for kind in kinds)
        )
        # By itself: starting programs would take the time of the others.
        for kind in LOSSES:
            results.append(await lost(kind, mocks, hosts[kind][0], lost_local, trials))
    finally:
        process.send_signal(signal.SIGINT)
        await process.wait()
    return {
        f'Tello: {kind}': row(KINDS[kind], *result)
        for kind, result in zip(KINDS, results, strict=True)
    }


def row(counted: str, times_s: list[float], error: str) -> dict[str, Any]:
    return {
        'counted': counted,
        'trials': len(times_s),
        'median_s': float(np.median(times_s)),
        'p95_s': float(np.percentile(times_s, 95)),
        'worst_s': max(times_s),
        'outcome': error,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--trials', type=COUNT, default=10, help='of each fault (default: 10)')
    parser.add_argument('--load', type=FROM_ZERO, default=8, help='processes that never rest')
    options = parser.parse_args()
    print(f'{options.trials} faults of each kind, on aircraft of their own ...', flush=True)
    # What the driver warns of is what is done to it here.
    logging.getLogger('timely_llm_ros').setLevel(logging.CRITICAL)
    # As executors have it; not what is beside them.
    take_precedence(alone=True)
    figures = {}
    for load in dict.fromkeys((0, options.load)):
        beside = f', load {load}' if load else ''
        with busy(load), tempfile.TemporaryDirectory() as folder:
            print(f'load {load}: faults of Tellos, some minutes ...', flush=True)
            for kind, found in asyncio.run(measure(options.trials, Path(folder))).items():
                figures[f'{kind}{beside}'] = found
            print(f'load {load}: faults of arms, some minutes ...', flush=True)
            for kind, result in asyncio.run(arms.measure(options.trials)).items():
                figures[f'{kind}{beside}'] = row(arms.KINDS[kind], *result)
    print(f'{"fault":<44}{"median":>9}{"p95":>9}{"worst":>9}  counted')
    for kind, one in figures.items():
        times = ''.join(f'{one[key] * 1000:>6.0f} ms' for key in ('median_s', 'p95_s', 'worst_s'))
        print(f'{kind:<44}{times}  {one["counted"]}')
    targets = [
        Target(
            f'worst time from fault to safe, {kind} (s)',
            one['worst_s'],
            '<=',
            DRIVER_LOST_S if any(loss in kind for loss in LOSSES) else TARGET_S,
        )
        for kind, one in figures.items()
    ]
    save('safety', figures, targets, path=options.json)


if __name__ == '__main__':
    main()
