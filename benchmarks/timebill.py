"""TimeBill: how well times are predicted, where eviction shortens steps, and what budgets gain.

    .venv/bin/python benchmarks/timebill.py [--jobs 24] [--seed 0]

On the embedded model and one thread. Jobs are tasks in held-out scenes of 40 to 200 objects, with
right plans of at least 30 tokens, done one after the other. Every approach does every job, in
random order, so that slow spells of the machine fall on all of them. What never depends on the
budget (nothing evicted, a fixed share) runs once per job and is judged at every budget by its
measured time.

Kill: a job that takes longer than T scores nothing. Skip-Next: a job is released every T, runs on
when it is late, and those released meanwhile score nothing. The score is the F1 of the plan's
calls, each with its arguments, or whether the plan is exactly right.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import time
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from _multibin_plots import picture
from _results import FOLDER, Target, save
from _timebill_jobs import Server, make_jobs

from timely_llm_ros.budget.budgeter import MAX_EVICTED, choose_eviction
from timely_llm_ros.budget.eviction_rule import BudgetedEviction, FixedEviction
from timely_llm_ros.budget.overrun import kill, skip_next
from timely_llm_ros.engines.model_files import SHIPPED_MODEL, find_model
from timely_llm_ros.engines.torch_eviction import find_method
from timely_llm_ros.engines.torch_model import load_model
from timely_llm_ros.engines.torch_profile import TorchStopwatch
from timely_llm_ros.prediction.fitting import coverage_factor
from timely_llm_ros.prediction.length_forecast import EmpiricalLengths
from timely_llm_ros.prediction.profiling import ProfilePlan, fit_profile, measure, profile_errors
from timely_llm_ros.prediction.response_length import pessimistic_length

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from _timebill_jobs import Job, Outcome

    from timely_llm_ros.prediction.execution_time import ExecutionTimeModel, TimeCoefficients

KV_TOKENS, MAX_TOKENS, CHUNK = 65536, 512, 128
SHARES = (0.25, 0.5, 0.75, 0.95)
PESSIMISM = (1, 2, 3, 4, 5, 6, 7, 8)
BUDGET_SHARES = (0.15, 0.3, 0.45, 0.6, 0.75, 0.9)
"""Budgets are these quantiles of what jobs take with nothing evicted."""
COVERAGE = 0.95
"""Of plan lengths and of times, each; of both together 1 - 2 (1 - 0.95)."""
CALIBRATION_JOBS = 24
LENGTH_JOBS = 400
LEAST_TOKENS = 30
"""Of right plans: where a plan has twenty tokens, its prompt takes nearly all the time."""
CONTEXTS, BATCHES = (256, 512, 1024, 2048, 4096), (1, 8)
STEP_ROUNDS = 3

Outcomes = dict[str, dict[int, 'Outcome']]
"""By approach and job."""


def profile(loaded: Any, repeats: int) -> tuple[ExecutionTimeModel, dict[str, Any]]:
    """Measure and fit the execution-time estimator on the sizes of long scenes."""
    plan = ProfilePlan(
        (128, 256, 512, 1024, 2048, 3072), (64, 256, 1024, 2048, 3072), (1,), repeats
    )
    timings = measure(plan, TorchStopwatch(loaded, prefill_chunk=CHUNK))
    times = fit_profile(timings)
    errors = profile_errors(times, timings)
    one = times.at(1)
    rows: dict[str, Any] = {
        'prefill_square_ns': one.prefill_square_s * 1e9,
        'prefill_token_us': one.prefill_token_s * 1e6,
        'prefill_ms': one.prefill_s * 1e3,
        'kv_token_us': one.kv_token_s * 1e6,
        'step_ms': one.step_s * 1e3,
        'repeats': repeats,
    }
    for name, found in (('prefill', errors.prefill), ('step', errors.steps[1])):
        assert found.held_out is not None
        rows[f'{name}_fitted_mape_pct'] = found.fitted.mape_pct
        rows[f'{name}_held_out_mape_pct'] = found.held_out.mape_pct
        rows[f'{name}_worst_pct'] = found.worst_pct
    print('estimator:', ', '.join(f'{name} {value:.4g}' for name, value in rows.items()))
    return times, rows


def step_table(server: Server) -> list[dict[str, float]]:
    """Measure decoding steps over contexts and shares that were really evicted."""
    cells = [
        (batch, context, share)
        for batch in BATCHES
        for context in CONTEXTS
        for share in (0.0, *SHARES)
        if batch * context <= KV_TOKENS // 2
    ]
    times_s: dict[tuple[int, int, float], list[float]] = defaultdict(list)
    faults: dict[tuple[int, int, float], float] = {}
    rng = random.Random(0)
    for _ in range(STEP_ROUNDS):
        rng.shuffle(cells)
        for cell in cells:
            batch, context, share = cell
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            steps_s = server.steps_s(batch, context, FixedEviction(share))
            faults[cell] = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / max(
                1, len(steps_s)
            )
            times_s[cell] += steps_s
    rows = []
    print('decoding step (ms) by batch, context and share evicted')
    print('batch context' + ''.join(f'{share:>8.0%}' for share in (0.0, *SHARES)))
    for batch in BATCHES:
        for context in CONTEXTS:
            line = []
            for share in (0.0, *SHARES):
                if (batch, context, share) in times_s:
                    step_ms = 1e3 * statistics.median(times_s[batch, context, share])
                    line.append(step_ms)
                    rows.append(
                        {
                            'batch': batch,
                            'context': context,
                            'evicted': share,
                            'step_ms': step_ms,
                            'page_faults_per_step': faults[batch, context, share],
                        }
                    )
            print(f'{batch:5} {context:7}' + ''.join(f'{value:8.2f}' for value in line))
    return rows


class Comparison:
    """Every approach on every job, and how each fares at every budget."""

    def __init__(self, server: Server, model: ExecutionTimeModel, seed: int, jobs: int) -> None:
        self._server = server
        self._rng = random.Random(seed)
        draw = partial(make_jobs, tokens=server.tokens, least_tokens=LEAST_TOKENS)
        calibration = draw(CALIBRATION_JOBS, seed + 1000)
        self.jobs = draw(jobs, seed)
        # What is expected of lengths comes from right plans of other tasks, as in the planner.
        self._lengths = EmpiricalLengths({})
        for job in draw(LENGTH_JOBS, seed + 2000):
            self._lengths.observe(
                job.prompt.fixed, job.prompt.body, server.tokens(job.sample.plan) + 1
            )
        self._sizes = {job.number: self._prompt_tokens(job) for job in self.jobs}
        # The first pass compiles grammars and computes the shared beginnings.
        for job in (*calibration, *self.jobs):
            server.serve(job, None)
        self.times, self.ratios = self._calibrated(model, calibration)
        self.expected = model.at(1)
        vanilla_s = [server.serve(job, None).total_s for job in self.jobs]
        self.budgets_s = tuple(float(q) for q in np.quantile(vanilla_s, BUDGET_SHARES))
        self.sweep_budget_s = self.budgets_s[2]

    def _prompt_tokens(self, job: Job) -> int:
        return self._server.prompt_tokens(job)

    def _calibrated(
        self, model: ExecutionTimeModel, jobs: Sequence[Job]
    ) -> tuple[TimeCoefficients, dict[str, float]]:
        """Return worst-case coefficients: whole generations of other jobs stay below them."""
        one = model.at(1)
        pairs: dict[str, tuple[list[float], list[float]]] = {}
        for job in jobs:
            outcome = self._server.serve(job, None)
            prompt, fixed = self._prompt_tokens(job), self._server.fixed_tokens(job)
            for name, taken_s, said_s in (
                ('prefill', outcome.prefill_s, one.prefill_time_s(prompt, fixed)),
                (
                    'decode',
                    outcome.total_s - outcome.prefill_s,
                    one.decode_time_s(prompt, outcome.length),
                ),
            ):
                if said_s > 0:
                    measured, predicted = pairs.setdefault(name, ([], []))
                    measured.append(taken_s)
                    predicted.append(said_s)
        ratios = {name: coverage_factor(*both, COVERAGE) for name, both in pairs.items()}
        prefill, decode = ratios['prefill'], ratios['decode']
        print(f'worst case: prefill {prefill:.3f}, decoding {decode:.3f} times the prediction')
        worst = replace(
            one,
            prefill_square_s=prefill * one.prefill_square_s,
            prefill_token_s=prefill * one.prefill_token_s,
            prefill_s=prefill * one.prefill_s,
            kv_token_s=decode * one.kv_token_s,
            step_s=decode * one.step_s,
        )
        return worst, ratios

    def worst_length(self, job: Job, k: float | None) -> int:
        forecast = self._lengths.predict(job.prompt.fixed, job.prompt.body)
        if k is None:
            return min(forecast.quantile(COVERAGE) or MAX_TOKENS, MAX_TOKENS)
        return pessimistic_length(forecast.predicted(MAX_TOKENS), k, MAX_TOKENS)

    def run(self) -> Outcomes:
        """Let every approach do every job, in random order."""
        visits: list[tuple[str, Job, float | None, float | None, float]] = []
        for job in self.jobs:
            visits.append(('vanilla', job, 0.0, None, 0.0))
            visits += [(f'fixed {share:g}', job, share, None, 0.0) for share in SHARES]
            visits += [(f'timebill T{n}', job, None, None, T) for n, T in enumerate(self.budgets_s)]
            visits += [(f'timebill k{k}', job, None, k, self.sweep_budget_s) for k in PESSIMISM]
        self._rng.shuffle(visits)
        found: Outcomes = defaultdict(dict)
        for name, job, share, k, budget_s in visits:
            if share is not None:
                found[name][job.number] = self._server.serve(job, FixedEviction(share))
                continue
            ends_by_s = time.monotonic() + budget_s
            rule = BudgetedEviction(ends_by_s, self.times, self.worst_length(job, k), MAX_EVICTED)
            found[name][job.number] = self._server.serve(job, rule)
        return found

    def judge(self, outcomes: dict[int, Outcome], budget_s: float) -> dict[str, float]:
        """Return scores and rates of one approach at one budget, in the jobs' order."""
        ordered = [outcomes[job.number] for job in self.jobs]
        times_s = [outcome.total_s for outcome in ordered]
        row: dict[str, float] = {'mean_evicted': statistics.fmean(o.evicted for o in ordered)}
        for name, report in (
            ('kill', kill(times_s, budget_s)),
            ('skip_next', skip_next(times_s, budget_s)),
        ):
            done = list(zip(ordered, report.completed, strict=True))
            row[f'{name}_f1'] = statistics.fmean(o.f1 if ok else 0.0 for o, ok in done)
            row[f'{name}_exact'] = statistics.fmean(float(o.exact and ok) for o, ok in done)
            row[f'{name}_completion'] = report.completion_rate
            row[f'{name}_on_time'] = report.on_time_rate
        return row

    def coverage(self, outcomes: dict[int, Outcome]) -> dict[str, float]:
        """Return how often times and lengths stayed below what was said of them."""
        rows = []
        for job in self.jobs:
            outcome, prompt = outcomes[job.number], self._sizes[job.number]
            fixed, worst = self._server.fixed_tokens(job), self.worst_length(job, None)
            own_s = self.times.total_time_s(prompt, outcome.length, 0.0, fixed)
            wcet_s = self.times.total_time_s(prompt, worst, 0.0, fixed)
            expected_s = self.expected.total_time_s(prompt, outcome.length, 0.0, fixed)
            rows.append(
                (
                    outcome.length <= worst,
                    outcome.total_s <= own_s,
                    outcome.total_s <= wcet_s,
                    abs(expected_s / outcome.total_s - 1),
                )
            )
        length, times, both, error = (
            statistics.fmean(map(float, c)) for c in zip(*rows, strict=True)
        )
        return {
            'length': length,
            'time_of_the_real_length': times,
            'wcet': both,
            'expected_time_mape_pct': 100 * error,
        }

    def leverage(self) -> dict[str, float]:
        """Return what eviction can save at most (SPEC: the width of the window of budgets)."""
        windows, shares, feasible = [], [], []
        for job in self.jobs:
            prompt, worst = self._sizes[job.number], self.worst_length(job, None)
            fixed = self._server.fixed_tokens(job)
            window_s = self.times.leverage_s(prompt, worst, MAX_EVICTED)
            windows.append(window_s)
            shares.append(window_s / self.times.total_time_s(prompt, worst, 0.0, fixed))
            feasible += [
                choice.evicted > 0 and choice.feasible
                for T in self.budgets_s
                for choice in (
                    choose_eviction(
                        self.times,
                        prompt_tokens=prompt,
                        worst_length=worst,
                        budget_s=T,
                        cached_tokens=fixed,
                    ),
                )
            ]
        return {
            'median_s': statistics.median(windows),
            'median_share_of_wcet': statistics.median(shares),
            'budgets_within_the_window': statistics.fmean(map(float, feasible)),
            'median_prompt_tokens': statistics.median(self._sizes.values()),
        }


def table(rows: dict[str, dict[str, dict[str, float]]], budgets_s: Sequence[float]) -> None:
    """Print score (F1) and completion of every approach at every budget."""
    for overrun in ('kill', 'skip_next'):
        print(f'{overrun}: F1 / exact / completion, by budget (s)')
        print(f'{"":>16}' + ''.join(f'{T:>19.3f}' for T in budgets_s))
        for name, found in rows.items():
            cells = (
                f'{r[f"{overrun}_f1"]:.3f}/{r[f"{overrun}_exact"]:.2f}/{r[f"{overrun}_completion"]:.2f}'
                for r in found.values()
            )
            print(f'{name:>16}' + ''.join(f'{cell:>19}' for cell in cells))


def draw(
    rows: dict[str, dict[str, dict[str, float]]],
    budgets_s: Sequence[float],
    sweep: Sequence[dict[str, float]],
    path: Path,
) -> None:
    """Draw score and completion over budgets, and over k."""
    figure, axes = picture(path, 4)
    for number, (name, found) in enumerate(rows.items()):
        style = {'color': f'C{number}', 'label': name, 'lw': 2.5 if name == 'TimeBill' else 1}
        values = list(found.values())
        for axis, key in zip(axes, ('kill_f1', 'skip_next_f1', 'kill_completion'), strict=False):
            axis.plot(budgets_s, [row[key] for row in values], marker='.', **style)
    for key, label in (('kill_f1', 'score'), ('kill_completion', 'completion')):
        axes[3].plot(PESSIMISM, [row[key] for row in sweep], marker='.', label=label)
    for axis, x, y in zip(
        axes,
        ('budget (s)', 'budget (s)', 'budget (s)', 'k'),
        ('score, Kill', 'score, Skip-Next', 'completion, Kill', ''),
        strict=True,
    ):
        axis.set_xlabel(x)
        axis.set_title(y, fontsize=9)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=6)
    figure.savefig(path, dpi=110)
    print(path)


def targets(
    estimator: dict[str, Any],
    rows: dict[str, dict[str, dict[str, float]]],
    coverage: dict[str, float],
) -> list[Target]:
    """Return what should be true."""
    found = [
        Target(
            'prefill MAPE on held-out sizes (%)', estimator['prefill_held_out_mape_pct'], '<=', 3
        ),
        Target('step MAPE on held-out sizes (%)', estimator['step_held_out_mape_pct'], '<=', 3),
        Target('t_WCET covers', coverage['wcet'], '>=', 1 - 2 * (1 - COVERAGE)),
    ]
    for overrun in ('kill', 'skip_next'):
        gaps = []
        for budget in rows['TimeBill']:
            ours = rows['TimeBill'][budget][f'{overrun}_f1']
            best = max(found[budget][f'{overrun}_f1'] for found in rows.values())
            gaps.append(ours - best)
        found.append(
            Target(f'{overrun}: TimeBill score less the best, worst budget', min(gaps), '>=', 0)
        )
    short = min(
        rows['TimeBill'][budget]['kill_completion'] - rows['fixed 0.95'][budget]['kill_completion']
        for budget in rows['TimeBill']
    )
    found.append(Target('kill: TimeBill completion less that of 95 %', short, '>=', -0.01))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--jobs', type=int, default=24, help='jobs per approach (default: 24)')
    parser.add_argument('--seed', type=int, default=0, help='of the jobs (default: 0)')
    parser.add_argument('--repeats', type=int, default=15, help='rounds of the profile')
    parser.add_argument('--eviction', default='snapkv', help='snapkv, knorm or streaming')
    parser.add_argument('--out', help='where the results go (default: results/timebill.json)')
    options = parser.parse_args()
    started_s = time.monotonic()
    loaded = load_model(find_model(SHIPPED_MODEL), max_kv_tokens=KV_TOKENS)
    model, estimator = profile(loaded, options.repeats)
    server = Server(loaded, find_method(options.eviction), max_tokens=MAX_TOKENS, chunk=CHUNK)
    steps = step_table(server)
    comparison = Comparison(server, model, options.seed, options.jobs)
    outcomes = comparison.run()
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for name in ('vanilla', *(f'fixed {share:g}' for share in SHARES), 'TimeBill'):
        rows[name] = {
            f'T{n}': comparison.judge(outcomes[f'timebill T{n}' if name == 'TimeBill' else name], T)
            for n, T in enumerate(comparison.budgets_s)
        }
    sweep = [
        {'k': k, **comparison.judge(outcomes[f'timebill k{k}'], comparison.sweep_budget_s)}
        for k in PESSIMISM
    ]
    table(rows, comparison.budgets_s)
    print(
        f'k at {comparison.sweep_budget_s:.3f} s, Kill: '
        + ', '.join(
            f'{row["k"]:.0f}: {row["kill_f1"]:.3f}/{row["kill_completion"]:.2f}' for row in sweep
        )
    )
    quality = {
        name: {
            'f1': statistics.fmean(o.f1 for o in found.values()),
            'exact': statistics.fmean(float(o.exact) for o in found.values()),
            'median_s': statistics.median(o.total_s for o in found.values()),
            'median_length': statistics.median(o.length for o in found.values()),
        }
        for name, found in outcomes.items()
        if not name.startswith('timebill')
    }
    coverage, leverage = comparison.coverage(outcomes['vanilla']), comparison.leverage()
    for name, values in (*quality.items(), ('coverage', coverage), ('leverage', leverage)):
        print(f'{name}:', ', '.join(f'{key} {value:.4g}' for key, value in values.items()))
    path = FOLDER / 'timebill.json'
    draw(rows, comparison.budgets_s, sweep, FOLDER.parents[1] / 'docs/images/timebill.png')
    figures = {
        'jobs': options.jobs,
        'seed': options.seed,
        'eviction': options.eviction,
        'estimator': estimator,
        'steps': steps,
        'worst_case_factors': comparison.ratios,
        'budgets_s': comparison.budgets_s,
        'approaches': rows,
        'quality_without_budget': quality,
        'k_sweep': {'budget_s': comparison.sweep_budget_s, 'rows': sweep},
        'coverage': coverage,
        'leverage': leverage,
        'wall_s': time.monotonic() - started_s,
    }
    save('timebill', figures, targets(estimator, rows, coverage), path=options.out or path)


if __name__ == '__main__':
    main()
