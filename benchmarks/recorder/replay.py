"""What-if replays of a long trace: how long they take, and how exact they are.

    .venv/bin/python -m benchmarks.recorder.replay [--robots 40] [--duration 900] [--seed 1]
        [--json FILE]

A fleet is served on virtual time and its trace written as a planner node and a recorder would:
the messages are made by the planner node's own code. The trace is then read and replayed as
``timely-llm what-if`` does by default: as it was, and under the policies utility, edf and fcfs.
Recorded on preset ``toy``, eight generations at most in one step, policy ``utility``; the load per
robot is that of TimelyLLM's WID1.

The error of the model is that of the run replayed as it was, once on the preset that it was
recorded on, where nothing but the trace's resolution is lost, and once on step times that are
fitted to the trace.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.common import COUNT, FROM_ZERO, POSITIVE, Target, arguments, save
from benchmarks.recorder.virtual_trace import apart, write_virtual_trace
from benchmarks.workloads import System, check_all_succeeded, compose, fleet_spec
from lrtrace.storage import Trace
from lrtrace.timeline import read_run
from timely_llm_ros.evaluation.what_if import (
    WhatIf,
    model_error,
    outcome,
    own_way,
    recording_of,
    replay,
    table,
)

SYSTEM = System('utility', policy='utility', max_running=8)
HARDWARE = 'toy'
POLICIES = ('utility', 'edf', 'fcfs')
LIMIT_S = 60.0
EXACT_S = 0.001


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--robots', type=COUNT, default=40)
    parser.add_argument('--duration', type=POSITIVE, default=900.0, help='virtual seconds')
    parser.add_argument('--seed', type=FROM_ZERO, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get('TMPDIR')) as folder:
        figures = measure(Path(folder) / 'run', options.robots, options.duration, options.seed)
    name = f'{options.robots} robots, {options.duration / 60:g} min'
    targets = [
        Target(f'{name}: read and replayed {1 + len(POLICIES)} times (s)', figures['all_s'], '<=',
               LIMIT_S),
        Target('as it was, same hardware: worst response (s)',
               figures['error_same_hardware']['response_worst_s'], '<=', EXACT_S),
        Target('as it was, fitted hardware: mean error by mean response',
               figures['error_fitted_share'], '<=', 0.1),
    ]  # fmt: skip
    save('replay', figures, targets, path=options.json)


def measure(folder: Path, robots: int, duration_s: float, seed: int) -> dict[str, Any]:
    workload = apart(compose(fleet_spec(robots, duration_s), seed))
    started_s = time.perf_counter()
    check_all_succeeded(tuple(write_virtual_trace(folder, workload, SYSTEM, hardware=HARDWARE)))
    print(f'recorded   {len(workload.tasks)} tasks in {time.perf_counter() - started_s:.1f} s')

    started_s = time.perf_counter()
    recording = recording_of(read_run(Trace(folder), label='recorded'))
    read_s = time.perf_counter() - started_s
    ids = {task.record.plan_id for task in recording.tasks}
    like = WhatIf(max_running=SYSTEM.max_running)
    own = own_way(recording, like)
    if own is None:
        raise SystemExit('the trace does not say how it was served: expected it to')
    fitted = replay(recording, own, label='replayed as it was')
    replays = []
    each_s = {}
    for policy in POLICIES:
        begun_s = time.perf_counter()
        way = replace(like, policy=policy, hardware=HARDWARE)
        replays.append(replay(recording, way, label=policy))
        each_s[policy] = time.perf_counter() - begun_s
    all_s = time.perf_counter() - started_s

    same = replays[POLICIES.index(SYSTEM.policy)]
    recorded = outcome(recording.run, ids)
    outcomes = [outcome(run, ids) for run in (fitted, *replays)]
    print(table(recorded, outcomes))
    print(f'read in {read_s:.1f} s; ' + ', '.join(f'{p} {s:.1f} s' for p, s in each_s.items()))
    errors = [model_error(recording.run, run, ids) for run in (same, fitted)]
    if None in errors:
        raise SystemExit('no task succeeded in both runs: expected all')
    of_same, of_fitted = (asdict(error) for error in errors if error is not None)
    return {
        'robots': robots,
        'duration_s': duration_s,
        'seed': seed,
        'tasks': recording.compared,
        'segments': sum(len(task.segments) for task in recording.tasks),
        'trace_bytes': sum(file.stat().st_size for file in Trace(folder).files),
        'read_s': read_s,
        'replay_s': each_s,
        'all_s': all_s,
        'recorded': recorded.as_dict(),
        'replays': [one.as_dict() for one in outcomes],
        'error_same_hardware': of_same,
        'error_fitted_hardware': of_fitted,
        'error_fitted_share': of_fitted['response_mean_s'] / recorded.response_s,
    }


if __name__ == '__main__':
    main()
