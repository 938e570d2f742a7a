"""A fleet of thousands on virtual time: wall time, memory, and whether a seed repeats exactly.

    .venv/bin/python -m benchmarks.timelyllm.scale [--robots 1000 3000 10000] [--duration 300]
        [--seed 1]
        [--json FILE]

Planner, scheduler, segmenters and executors are the real ones, one executor for each robot; only
the engine's step times come from a formula (preset ``h200_llama3_8b``) and robots only sleep. Every
robot gets a task every 22 s on average, in bursts of 1 to 8 tasks for the fleet: the load per robot
of TimelyLLM's WID1. One engine serves all of them, 256 generations at most in one step.

Each fleet is served in a process of its own, one after the other, so that peak memory is its own;
the smallest one twice, to compare the two event logs. Wall time is that of serving, without drawing
the tasks; CPU time is given beside it because other programs may share the core.
"""

from __future__ import annotations

import gc
import itertools
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import COUNT, FROM_ZERO, POSITIVE, Target, arguments, save
from benchmarks.timelyllm.event_log import EventLog
from benchmarks.workloads import System, check_all_succeeded, compose, fleet_spec, run_workload
from timely_llm_ros.scheduling import SchedulingOptions

if TYPE_CHECKING:
    import argparse

    from timely_llm_ros.planner import PlannerEvent

HARDWARE = 'h200_llama3_8b'
SYSTEM = System(
    'utility',
    policy='utility',
    max_running=256,
    scheduling=SchedulingOptions(admission='feasible', interrupts=True),
)
LIMIT_S = 180.0
HEAD = (
    f'{"robots":>7} {"tasks":>8} {"segments":>9} {"tokens":>9} {"wall s":>7} {"CPU s":>7} '
    f'{"us/segment":>10} {"MiB":>6} {"U":>6} {"wait s":>7}  log'
)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--robots', type=COUNT, nargs='+', default=[1000, 3000, 10_000])
    parser.add_argument('--duration', type=POSITIVE, default=300.0, help='virtual seconds')
    parser.add_argument('--seed', type=FROM_ZERO, default=1)
    parser.add_argument('--one', type=COUNT, metavar='ROBOTS', help='serve one fleet, print JSON')
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(serve(options.one, options.duration, options.seed)))
        return
    sizes = sorted(options.robots)
    print(HEAD)
    again = serve_in_child(sizes[0], options)
    figures = [serve_in_child(robots, options) for robots in sizes]
    same = float(again['log_sha256'] == figures[0]['log_sha256'])
    largest = figures[-1]
    name = f'{largest["robots"]} robots, {options.duration:g} s'
    targets = [
        Target(f'{name}: wall time (s)', largest['wall_s'], '<=', LIMIT_S),
        Target(f'{name}: CPU time (s)', largest['cpu_s'], '<=', LIMIT_S),
        Target(f'{sizes[0]} robots twice: byte-identical event logs', same, '>=', 1.0),
    ]
    if len(figures) > 2:
        targets.append(Target('memory per robot, last to first rise', bend(figures), '<=', 1.1))
    save('scale', [again, *figures], targets, path=options.json)


def bend(figures: list[dict[str, Any]]) -> float:
    """How much more memory a robot takes between the largest two fleets than at the smallest."""
    rises = [
        (more['peak_mib'] - less['peak_mib']) / (more['robots'] - less['robots'])
        for less, more in itertools.pairwise(figures)
    ]
    return float(rises[-1] / rises[0])


def serve_in_child(
    robots: int, options: argparse.Namespace, program: str = 'benchmarks.timelyllm.scale'
) -> dict[str, Any]:
    command = [sys.executable, '-m', program, '--one', str(robots)]
    command += ['--duration', str(options.duration), '--seed', str(options.seed)]
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    figures: dict[str, Any] = json.loads(run.stdout)
    print(
        f'{robots:7} {figures["tasks"]:8} {figures["segments"]:9} {figures["tokens"]:9} '
        f'{figures["wall_s"]:7.1f} {figures["cpu_s"]:7.1f} {figures["us_per_segment"]:10.0f} '
        f'{figures["peak_mib"]:6.0f} {figures["mean_utility"]:6.3f} '
        f'{figures["mean_waiting_s"]:7.3f}  {figures["log_sha256"][:16]}'
    )
    return figures


def serve(
    robots: int,
    duration_s: float,
    seed: int,
    system: System = SYSTEM,
    *,
    hardware: str = HARDWARE,
    **serving: Any,
) -> dict[str, Any]:
    workload = compose(fleet_spec(robots, duration_s), seed)
    # A task that ended leaves no reference cycle, so there is nothing for a collector to find.
    gc.disable()
    log = EventLog()
    progress = Progress(robots, duration_s)

    def see(event: PlannerEvent) -> None:
        log.add(event)
        progress.show(event.at_s)

    started_s, cpu_s = time.perf_counter(), time.process_time()
    records = run_workload(workload, system, hardware=hardware, on_event=see, **serving)
    wall_s, cpu_s = time.perf_counter() - started_s, time.process_time() - cpu_s
    progress.clear()
    check_all_succeeded(records)
    segments = sum(record.result.segments for record in records)
    return {
        'robots': robots,
        'duration_s': duration_s,
        'seed': seed,
        'tasks': len(records),
        'segments': segments,
        'tokens': sum(record.result.tokens for record in records),
        'wall_s': wall_s,
        'cpu_s': cpu_s,
        'us_per_segment': 1e6 * cpu_s / segments,
        'peak_mib': peak_mib(),
        'mean_utility': statistics.fmean(record.result.utility for record in records),
        'mean_waiting_s': statistics.fmean(record.result.waiting_s for record in records),
        'mean_queued_s': statistics.fmean(record.queued_s for record in records),
        'log_lines': log.lines,
        'log_bytes': log.bytes,
        'log_sha256': log.sha256,
    }


def peak_mib() -> float:
    """The most memory that this process had (MiB)."""
    for line in Path('/proc/self/status').read_text().splitlines():
        if line.startswith('VmHWM:'):
            return int(line.split()[1]) / 1024
    raise OSError('no VmHWM in /proc/self/status: expected Linux')


class Progress:
    """How far the virtual time is, on the terminal."""

    def __init__(self, robots: int, duration_s: float) -> None:
        self._robots, self._duration_s = robots, duration_s
        self._next_s = 0.0
        self._shown = sys.stderr.isatty()

    def show(self, at_s: float) -> None:
        if self._shown and at_s >= self._next_s:
            self._next_s = at_s + self._duration_s / 100
            sys.stderr.write(f'\r{self._robots} robots: {at_s:.0f} of {self._duration_s:.0f} s ')
            sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write('\r\033[K')


if __name__ == '__main__':
    main()
