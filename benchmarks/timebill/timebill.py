"""TimeBill: how well times are predicted, where eviction shortens steps, and what budgets gain.

    .venv/bin/python -m benchmarks.timebill.timebill [--quick] [--jobs 120] [--visits 3]
        [--record FILE]
    .venv/bin/python -m benchmarks.timebill.timebill --replay FILE --json FILE

On the embedded model and one thread. Jobs are tasks in held-out scenes of 40 to 200 objects, with
right plans of at least 30 tokens. Each is generated with every share of a grid evicted and takes
the median of three timings; what an approach chooses is then looked up, at every budget. TimeBill
also does the jobs against the clock at one budget, to see that it comes to the same.

Kill: a job that takes longer than T scores nothing. Skip-Next: a job is released every T, runs on
when it is late, and those released meanwhile score nothing; the mean over 50 orders of the jobs.
The score is the F1 of the plan's calls, each with its arguments, or whether the plan is exactly
right.
"""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from benchmarks.common import COUNT, FOLDER, FROM_ZERO, Target, arguments, require_matplotlib, save
from benchmarks.timebill.approaches import (
    Overrun,
    TimeBill,
    choices,
    fixed,
    judge,
    oracle,
    standard_error,
    told,
)
from benchmarks.timebill.checks import coverage, effects, leverage
from benchmarks.timebill.estimates import (
    COVERAGE,
    Estimates,
    factors,
    long_scenes,
    profile,
    time_sizes,
)
from benchmarks.timebill.figures import draw, table
from benchmarks.timebill.jobs import Server, make_jobs
from benchmarks.timebill.record import progress, record
from benchmarks.timebill.record_file import Record, read_record, write_record
from benchmarks.timebill.steps import step_table
from timely_llm_ros.engines.tokens import PREDICTORS, SHIPPED_MODEL, find_model
from timely_llm_ros.engines.torch.compute import find_method, load_model
from timely_llm_ros.prediction.lengths import read_rlp

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from benchmarks.timebill.approaches import Approach, Choices
    from benchmarks.timebill.figures import Row, Rows
    from benchmarks.timebill.jobs import Job
    from benchmarks.timebill.record import Recorded

KV_TOKENS, MAX_TOKENS, CHUNK = 65536, 512, 128
GRID = (0.0, 0.1, 0.25, 0.5, 0.75, 0.85, 0.95)
QUICK_GRID = (0.0, 0.25, 0.5, 0.75, 0.95)
FIXED = (0.25, 0.5, 0.75, 0.95)
PESSIMISM = (1, 2, 3, 4, 5, 6, 7, 8)
WEIGHTS = (0.0, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0)
"""What an answer in time is worth beside its score, for the frontier of score and completion."""
BUDGET_SHARES = (0.15, 0.3, 0.45, 0.6, 0.75, 0.9)
"""Budgets are these quantiles of what jobs take with nothing evicted."""
LEAST_TOKENS = 30
"""Of right plans: where a plan has twenty tokens, its prompt takes nearly all the time."""
CONTEXTS = (256, 512, 1024, 2048, 4096)
WARMING = 12
"""Jobs done once before any is timed."""


def fares(
    approach: Approach, jobs: Sequence[Recorded], budget_s: float, grid: Sequence[float]
) -> Row:
    """Return how an approach fares at a budget under both ways to overrun."""
    row: Row = {}
    for overrun in get_args(Overrun):
        chosen = choices(approach, jobs, budget_s, overrun)
        found = asdict(judge(chosen, jobs, budget_s, overrun, grid))
        row |= {f'{overrun}_{name}': value for name, value in found.items()}
    return row


def errors_of(
    rows: Rows, approaches: dict[str, Approach], jobs: Sequence[Recorded],
    budgets_s: Sequence[float], grid: Sequence[float],
) -> dict[str, list[Row]]:  # fmt: skip
    """Return by how much TimeBill is ahead of the best fixed share, with standard errors."""
    others = [name for name in rows if name == 'vanilla' or name.startswith('fixed')]
    found: dict[str, list[Row]] = {}
    for overrun in get_args(Overrun):
        found[overrun] = []
        for place, budget_s in enumerate(budgets_s):
            best = max(others, key=lambda name: rows[name][place][f'{overrun}_f1'])

            def score(
                chosen: Choices,
                drawn: Sequence[Recorded],
                seed: int,
                budget_s: float = budget_s,
                overrun: Overrun = overrun,
            ) -> float:
                return judge(chosen, drawn, budget_s, overrun, grid, orders=4, seed=seed).f1

            ours, other = rows['TimeBill'][place], rows[best][place]
            found[overrun].append(
                {
                    'ahead': ours[f'{overrun}_f1'] - other[f'{overrun}_f1'],
                    'standard_error': standard_error(
                        choices(approaches['TimeBill'], jobs, budget_s, overrun),
                        choices(approaches[best], jobs, budget_s, overrun),
                        jobs,
                        score,
                    ),
                }
            )
    return found


def frontier(
    rows: Rows, estimates: Estimates, jobs: Sequence[Recorded], budgets_s: Sequence[float],
    grid: Sequence[float],
) -> list[Row]:  # fmt: skip
    """Return score ahead of the best fixed share and completion beside 95 %, by weight; Kill."""
    others = [name for name in rows if name == 'vanilla' or name.startswith('fixed')]
    found = []
    for weight in WEIGHTS:
        ours = TimeBill(grid, estimates, ended=weight)
        ahead, less = [], []
        for place, budget_s in enumerate(budgets_s):
            verdict = judge(choices(ours, jobs, budget_s, 'kill'), jobs, budget_s, 'kill', grid)
            ahead.append(verdict.f1 - max(rows[name][place]['kill_f1'] for name in others))
            less.append(verdict.completion - rows['fixed 0.95'][place]['kill_completion'])
        found.append(
            {
                'weight': weight,
                'ahead_mean': statistics.fmean(ahead),
                'ahead_worst': min(ahead),
                'completion_mean': statistics.fmean(less),
                'completion_worst': min(less),
            }
        )
    for row in found:
        print('ending is worth', ', '.join(f'{name} {it:+.3f}' for name, it in row.items()))
    return found


def live(
    server: Server,
    ours: TimeBill,
    made: Sequence[Job],
    jobs: Sequence[Recorded],
    budget_s: float,
) -> Row:
    """Do the jobs against the clock at one budget; return how that fares, and as looked up."""
    done, f1, agreed = 0, 0.0, 0
    for job, it in progress(list(zip(made, jobs, strict=True)), 'against the clock'):
        outcome = server.serve(job, ours.rule(it, time.monotonic() + budget_s, None))
        in_time = outcome.total_s <= budget_s
        place = ours(it, budget_s, 'kill')
        assert place is not None
        done += in_time
        f1 += outcome.f1 if in_time else 0.0
        agreed += in_time == (it.tried[place].total_s <= budget_s)
    chosen = choices(ours, jobs, budget_s, 'kill')
    looked_up = judge(chosen, jobs, budget_s, 'kill', ours.grid)
    return {
        'budget_s': budget_s,
        'f1': f1 / len(jobs),
        'completion': done / len(jobs),
        'looked_up_f1': looked_up.f1,
        'looked_up_completion': looked_up.completion,
        'same_end': agreed / len(jobs),
    }


def targets(estimator: dict[str, Any], rows: Rows, found: dict[str, Any]) -> list[Target]:
    """Return what should be true."""
    goals = [
        Target(
            'prefill MAPE on held-out sizes (%)', estimator['prefill_held_out_mape_pct'], '<=', 3
        ),
        Target('step MAPE on held-out sizes (%)', estimator['step_held_out_mape_pct'], '<=', 3),
        Target('t_WCET covers', found['wcet'], '>=', 1 - 2 * (1 - COVERAGE)),
    ]
    others = [name for name in rows if name == 'vanilla' or name.startswith('fixed')]
    places = range(len(rows['TimeBill']))
    for overrun in get_args(Overrun):
        key = f'{overrun}_f1'
        gaps = [
            rows['TimeBill'][n][key] - max(rows[other][n][key] for other in others) for n in places
        ]
        name = f'{overrun}: TimeBill score less the best fixed one, worst budget'
        goals.append(Target(name, min(gaps), '>=', 0))
    short = [
        rows['TimeBill'][n]['kill_completion'] - rows['fixed 0.95'][n]['kill_completion']
        for n in places
    ]
    name = 'kill: TimeBill completion less that of 95 %'
    goals.append(Target(name, min(short), '>=', -0.01))
    goals.append(Target(f'{name}, mean of the budgets', statistics.fmean(short), '>=', -0.01))
    return goals


def budgets_of(jobs: Sequence[Recorded]) -> tuple[float, ...]:
    """Return the budgets that jobs are judged at (s)."""
    vanilla_s = [it.tried[0].total_s for it in jobs]
    return tuple(float(q) for q in np.quantile(vanilla_s, BUDGET_SHARES))


def make_record(options: argparse.Namespace) -> Record:
    """Generate and time everything; the profile is measured before and after it."""
    quick = options.quick
    count = options.jobs or (24 if quick else 120)
    repeats = options.repeats or (5 if quick else 15)
    grid = QUICK_GRID if quick else GRID
    path = find_model(SHIPPED_MODEL)
    loaded = load_model(path, max_kv_tokens=KV_TOKENS)
    before = time_sizes(loaded, long_scenes(-(-repeats // 2)), CHUNK)
    server = Server(loaded, find_method(options.eviction), max_tokens=MAX_TOKENS, chunk=CHUNK)
    steps = step_table(
        server, CONTEXTS[1::2] if quick else CONTEXTS, kv_tokens=KV_TOKENS, rounds=1 if quick else 3
    )
    jobs = make_jobs(count, options.seed, tokens=server.tokens, least_tokens=LEAST_TOKENS)
    # The first jobs compute the beginnings that all share.
    for job in progress(jobs[:WARMING], 'first pass'):
        server.prepare(job)
    rlp = read_rlp(Path(path) / PREDICTORS)
    times = options.visits or (1 if quick else 3)
    recorded, evicting_token_s = record(
        server, jobs, grid, random.Random(options.seed), rlp, times=times
    )
    after = time_sizes(loaded, long_scenes(-(-repeats // 2)), CHUNK)
    profiled, estimator = profile(loaded, (before, after), repeats, CHUNK)
    ours = TimeBill(grid, Estimates.of(profiled))
    clock = live(server, ours, jobs, recorded, budgets_of(recorded)[3])
    return Record(
        options.seed, quick, options.eviction, grid, evicting_token_s, steps, estimator, profiled,
        tuple(recorded), clock,
    )  # fmt: skip


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--quick', action='store_true', help='a rough picture in 90 s')
    parser.add_argument('--jobs', type=COUNT, help='jobs (default: 120, quick 24)')
    parser.add_argument(
        '--seed', type=FROM_ZERO, default=1,
        help='of the jobs (default: 1; what eviction costs was learned from those of 0)',
    )  # fmt: skip
    parser.add_argument('--visits', type=COUNT, help='timings of each (default: 3, quick 1)')
    parser.add_argument(
        '--repeats', type=COUNT, help='rounds of the profile (default: 15, quick 5)'
    )
    parser.add_argument('--eviction', default='snapkv', help='snapkv, knorm or streaming')
    parser.add_argument('--record', help='keep what was generated and timed in this file')
    parser.add_argument('--replay', help='judge what such a file has; nothing is generated')
    options = parser.parse_args()
    if not options.json:
        require_matplotlib()
    started_s = time.monotonic()
    if options.record and not Path(options.record).absolute().parent.is_dir():
        parser.error(f'--record {options.record!r}: expected a file in a folder that is there')
    try:
        kept = read_record(options.replay) if options.replay else make_record(options)
    except (OSError, ValueError, KeyError) as err:
        if not options.replay:
            raise
        parser.error(f'--replay {options.replay!r}: {err!r}, expected a file of --record')
    if options.record:
        write_record(kept, options.record)
    recorded, grid, estimator = kept.jobs, kept.grid, kept.estimator
    estimates = Estimates.of(kept.times)
    scaled = factors(estimates, recorded, grid)
    budgets_s = budgets_of(recorded)
    ours = TimeBill(grid, estimates)
    approaches: dict[str, Approach] = {
        'vanilla': fixed(0),
        **{f'fixed {share:g}': fixed(grid.index(share)) for share in FIXED},
        'as printed, k=5': TimeBill(grid, estimates, pessimism=5, decides='most'),
        'as printed, 95 %': TimeBill(grid, estimates, decides='most'),
        'refusing': TimeBill(grid, estimates, refuses=True),
        'TimeBill': ours,
        'worst case first': TimeBill(grid, estimates, decides='worst_case'),
        'lengths told': told(ours),
        'oracle': oracle,
    }
    rows: Rows = {
        name: [fares(approach, recorded, T, grid) for T in budgets_s]
        for name, approach in approaches.items()
    }
    sweep_s = budgets_s[2]
    sweep = [
        {
            'k': float(k),
            **fares(
                TimeBill(grid, estimates, pessimism=k, decides='most'), recorded, sweep_s, grid
            ),
        }
        for k in PESSIMISM
    ]
    table(rows, budgets_s)
    ahead = errors_of(rows, approaches, recorded, budgets_s, grid)
    for overrun, found in ahead.items():
        cells = (f'{it["ahead"]:+.3f} ± {it["standard_error"]:.3f}' for it in found)
        print(f'{overrun}, ahead of the best fixed share:', ', '.join(cells))
    print(
        f'k at {sweep_s:.3f} s, as printed, Kill: '
        + ', '.join(f'{r["k"]:.0f}: {r["kill_f1"]:.3f}/{r["kill_completion"]:.2f}' for r in sweep)
    )
    quality = {
        f'{share:g}': {
            'f1': statistics.fmean(it.tried[place].f1 for it in recorded),
            'exact': statistics.fmean(float(it.tried[place].exact) for it in recorded),
            'median_s': statistics.median(it.tried[place].total_s for it in recorded),
            'median_length': statistics.median(it.tried[place].length for it in recorded),
        }
        for place, share in enumerate(grid)
    }
    covered, window = coverage(ours, recorded, grid), leverage(ours, recorded, budgets_s)
    for name, values in (*quality.items(), ('coverage', covered), ('leverage', window)):
        print(f'{name}:', ', '.join(f'{k} {v:.4g}' for k, v in values.items() if k[-5:] != 'share'))
    print('by the clock:', ', '.join(f'{name} {value:.4g}' for name, value in kept.clock.items()))
    if not options.json:
        draw(rows, budgets_s, sweep, FOLDER.parents[1] / 'docs/images/timebill.png')
    figures = {
        'jobs': len(recorded),
        'visits': len(recorded[0].tried[0].visits_s),
        'seed': kept.seed,
        'quick': kept.quick,
        'eviction': kept.eviction,
        'estimator': estimator,
        'steps': kept.steps,
        'factors': scaled,
        'evicting_ms': 1e3 * kept.evicting_token_s * window['median_prompt_tokens'],
        'budgets_s': budgets_s,
        'approaches': rows,
        'ahead_of_the_best_fixed_share': ahead,
        'quality_by_share': quality,
        'effects': effects(recorded, grid),
        'frontier': frontier(rows, estimates, recorded, budgets_s, grid),
        'k_sweep': {'budget_s': sweep_s, 'rows': sweep},
        'coverage': covered,
        'leverage': window,
        'by_the_clock': kept.clock,
        'wall_s': time.monotonic() - started_s,
    }
    save(
        'timebill', figures, targets(estimator, rows, covered),
        path=options.json,
    )  # fmt: skip


if __name__ == '__main__':
    main()
