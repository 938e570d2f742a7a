"""The recorder under a fleet's traffic: what it loses, what memory it takes, what a kill costs.

    .venv/bin/python -m benchmarks.recorder.recorder [--minutes 10] [--part flood|kills|both]
        [--json FILE]

*Flood*: a program publishes as 100 robots do, 3,000 messages of 300 bytes a second, over DDS to
the recorder, which is a process of its own, on the same machine. Every message carries its
number, and the trace is read back: messages missing are counted topic by topic.

*Kills*: the recorder is killed with SIGKILL under the same traffic, at a moment drawn at random,
again and again. A trace is as it should be if every topic in it holds its messages from the
first on without a gap and the newest is no older than the last chunk may be.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import COUNT, FROM_ZERO, POSITIVE, Target, arguments, save
from benchmarks.recorder.robot_traffic import number_of, templates
from lrtrace.storage import Trace
from timely_llm_ros.testing import free_domain

if TYPE_CHECKING:
    import argparse

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = '/bench'
FLUSH_S = 0.5
LOST_S = 2 * FLUSH_S
"""A chunk holds what came in one flush period; on a loaded machine its writing may take another."""

MEMORY_MIB = 300.0
GROWTH_MIB = 32.0
LIMIT_S = 120.0
IDLE_BYTES = 20_000
"""So much or less in four flush periods is what the recorder says of itself."""

SETTLED_S = 60.0
"""Memory is compared from here on (s): until then caches and tables fill."""


class Traffic:
    """The program that publishes."""

    def __init__(self, robots: int, rate: float, size: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, '-m', 'benchmarks.recorder.robot_traffic', str(robots),
             str(rate), str(size), NAMESPACE],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def line(self) -> str:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if not text:
            raise SystemExit(f'the traffic ended with {self.process.wait()}: expected it to go on')
        return text

    def go(self) -> None:
        """Wait until everything is subscribed, then begin."""
        self.line()
        self.tell()

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write('\n')
        self.process.stdin.flush()

    def stop(self) -> dict[str, Any]:
        """End the traffic; return what was sent."""
        self.tell()
        return dict(json.loads(self.line()))

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def start_recorder(output: Path) -> subprocess.Popen[str]:
    parameters = {'output': str(output), 'flush_period_s': FLUSH_S}
    command = [sys.executable, str(ROOT / 'scripts' / 'recorder'), '--ros-args']
    command += ['-r', f'__ns:={NAMESPACE}']
    for name, value in parameters.items():
        command += ['-p', f'{name}:={json.dumps(value)}']
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {'PYTHONPATH': str(ROOT)},
    )


def usage(pid: int) -> tuple[float, float]:
    """Return resident memory (MiB) and processor time so far (s) of a process."""
    status = Path(f'/proc/{pid}/status').read_text()
    resident = next(line for line in status.splitlines() if line.startswith('VmRSS'))
    fields = Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()
    return int(resident.split()[1]) / 1024, (int(fields[11]) + int(fields[12])) / os.sysconf(
        'SC_CLK_TCK'
    )


def flood(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    recorder = start_recorder(folder / 'flood')
    traffic = Traffic(options.robots, options.rate, options.size)
    try:
        traffic.go()
        started_s = time.monotonic()
        samples = []
        begun = usage(recorder.pid)[1], usage(traffic.process.pid)[1]
        while (elapsed_s := time.monotonic() - started_s) < options.minutes * 60:
            time.sleep(1.0)
            if recorder.poll() is not None:
                raise SystemExit(f'the recorder ended: {recorder.communicate()[0]}')
            samples.append((elapsed_s, usage(recorder.pid)[0]))
            if len(samples) % 30 == 0:
                print(f'{elapsed_s:6.0f} s  {samples[-1][1]:.0f} MiB', file=sys.stderr, flush=True)
        ended = usage(recorder.pid)[1], usage(traffic.process.pid)[1]
        told = traffic.stop()
        wait_until_written(folder / 'flood')
        recorder.send_signal(signal.SIGINT)
        said = recorder.communicate(timeout=LIMIT_S)[0]
    finally:
        traffic.close()
        if recorder.poll() is None:
            recorder.kill()
            recorder.wait()
    print(said.strip().splitlines()[-1])
    sent = sum(told['sent'].values())
    recorded, gaps = counted(folder / 'flood', options.size)
    settled = [rss for at_s, rss in samples if at_s >= min(SETTLED_S, 0.5 * samples[-1][0])]
    return {
        'seconds': told['elapsed_s'],
        'sent': sent,
        'sent_per_s': sent / told['elapsed_s'],
        'topics': len(told['sent']),
        'bytes_each': options.size,
        'recorded': recorded,
        'missing': sent - recorded,
        'gaps': gaps,
        'recorder_said': said.strip().splitlines()[-1].split(': ', 1)[-1],
        'trace_bytes': sum(file.stat().st_size for file in Trace(folder / 'flood').files),
        'memory_mib': {
            'settled': settled[0],
            'most': max(rss for _, rss in samples),
            'end': samples[-1][1],
            'growth_since_settled': max(settled) - settled[0],
        },
        'recorder_cpu_share': (ended[0] - begun[0]) / samples[-1][0],
        'traffic_cpu_share': (ended[1] - begun[1]) / samples[-1][0],
        'traffic_latest_s': told['latest_s'],
    }


def wait_until_written(folder: Path) -> None:
    """Wait until the recorder's files grow by no more than its own diagnostics, for a while."""
    end_s = time.monotonic() + LIMIT_S
    last, since_s = -1, time.monotonic()
    while time.monotonic() - since_s < 4 * FLUSH_S and time.monotonic() < end_s:
        size = sum(path.stat().st_size for path in folder.glob('*.mcap'))
        if size > last + IDLE_BYTES:
            last, since_s = size, time.monotonic()
        time.sleep(0.1)


def counted(folder: Path, size: int) -> tuple[int, int]:
    """Return how many of the robots' messages were recorded, and how often one was skipped."""
    offsets = {name: offset for name, (_, offset) in templates(size).items()}
    seen: Counter[str] = Counter()
    gaps = 0
    for _, channel, message in Trace(folder).raw():
        if not channel.topic.startswith(f'{NAMESPACE}/robot_'):
            continue
        number = number_of(message.data, offsets[channel.topic.rsplit('/', 1)[1]])
        gaps += number != seen[f'next on {channel.topic}']
        seen[f'next on {channel.topic}'] = number + 1
        seen['all'] += 1
    return seen['all'], gaps


@dataclass(frozen=True, slots=True)
class Kill:
    """What is left of a trace whose recorder was killed.

    Attributes:
        recorded: The robots' messages in it.
        gaps: How often one is missing between two others.
        lost_s: How long before the kill its newest message was (s).
        damage: What its reader says is wrong with it.
    """

    recorded: int
    gaps: int
    lost_s: float
    damage: str | None


def kills(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    rng = random.Random(options.seed)
    rows: list[Kill] = []
    for number in range(options.kills):
        output = folder / f'kill_{number}'
        recorder = start_recorder(output)
        traffic = Traffic(options.robots, options.rate, options.size)
        try:
            traffic.go()
            time.sleep(rng.uniform(1.0, 4.0))
            recorder.kill()
            killed_ns = time.time_ns()
            recorder.wait()
        finally:
            traffic.close()
        trace = Trace(output)
        recorded, gaps = counted(output, options.size)
        summary = trace.summary()
        rows.append(Kill(recorded, gaps, (killed_ns - summary.end_ns) / 1e9, summary.damage))
        lost_s = rows[-1].lost_s
        print(
            f'kill {number + 1:2}: {recorded} messages, {gaps} gaps, the last {lost_s:.3f} s ago',
            file=sys.stderr,
            flush=True,
        )
    return {
        'kills': options.kills,
        'with_gaps': sum(row.gaps > 0 for row in rows),
        'without_a_message': sum(not row.recorded for row in rows),
        'lost_s': {
            'least': min(row.lost_s for row in rows),
            'most': max(row.lost_s for row in rows),
        },
        'each': [asdict(row) for row in rows],
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--minutes', type=POSITIVE, default=10.0)
    parser.add_argument('--robots', type=COUNT, default=100)
    parser.add_argument('--rate', type=POSITIVE, default=3100.0, help='messages a second in all')
    parser.add_argument('--size', type=COUNT, default=300, help='bytes of a serialised message')
    parser.add_argument('--kills', type=FROM_ZERO, default=20)
    parser.add_argument('--seed', type=FROM_ZERO, default=1)
    parser.add_argument('--part', choices=('flood', 'kills', 'both'), default='both')
    options = parser.parse_args()
    os.environ |= {
        'ROS_DOMAIN_ID': str(free_domain()),
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
    }
    with tempfile.TemporaryDirectory(dir=os.environ.get('TMPDIR')) as name:
        if options.part in ('flood', 'both'):
            figures = flood(Path(name), options)
            memory = figures['memory_mib']
            targets = [
                Target('messages a second', figures['sent_per_s'], '>=', 3000.0),
                Target('minutes', figures['seconds'] / 60, '>=', 10.0),
                Target('messages missing', figures['missing'], '<=', 0),
                Target('most memory (MiB)', memory['most'], '<=', MEMORY_MIB),
                Target('growth after the first minute (MiB)', memory['growth_since_settled'],
                       '<=', GROWTH_MIB),
            ]  # fmt: skip
            save('recorder', figures, targets, path=options.json)
        if options.part in ('kills', 'both'):
            figures = kills(Path(name), options)
            targets = [
                Target('kills', figures['kills'], '>=', 20),
                Target('traces with a gap', figures['with_gaps'], '<=', 0),
                Target('traces without a message', figures['without_a_message'], '<=', 0),
                Target('most that a kill lost (s)', figures['lost_s']['most'], '<=', LOST_S),
            ]
            save('recorder_kills', figures, targets, path=options.json)


if __name__ == '__main__':
    main()
