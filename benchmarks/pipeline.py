"""Ten workloads on a pipeline of four stages with slow links, served four ways, simulated.

    .venv/bin/python benchmarks/pipeline.py [--fit EVALUATIONS] [--json FILE]

``baseline``: vLLM's rules, as many new requests in a micro-batch as fit. ``budget``: prefill and
decoding spread evenly (algorithm 1). ``both``: that and algorithm 2's number of micro-batches.
``period``: ours, the number with the shortest round. The workloads and the measured times are
Table 1 of preprints 202512.0788.

There is one cost model for all rows and systems. ``--fit`` finds it again from four of the
workloads; the other six are predictions.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy as np
from _results import Target, save

from lrtrace.pipeline_serving import (
    GreedyAdmission,
    KvMemory,
    Request,
    Served,
    SpreadAdmission,
    Workload,
    serve,
)
from lrtrace.pipeline_table import PAPER, SYSTEMS, Times, improvement
from timely_llm_ros.scheduling.microbatch import LinearCosts, best_count, least_gap_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

STAGES = 4
MOST_TOKENS = 1024
"""Most of a micro-batch. The paper does not say; of 512, 1024 and 2048 this fits best."""
MOST_MICRO_BATCHES = 16
OURS = 'period'
FITTED = (
    Workload(64, 256, 256),
    Workload(256, 256, 256),
    Workload(64, 512, 512),
    Workload(32, 1024, 1024),
)
"""What the cost model was fitted to."""


@dataclass(frozen=True, slots=True)
class Model:
    """The cost model; its defaults are what ``--fit 210`` found, to four digits."""

    compute_base_s: float = 0.01448
    compute_token_s: float = 0.0003131
    transfer_base_s: float = 0.0005
    transfer_token_s: float = 0.002132
    return_s: float = 0.002218
    kv_tokens: float = 25_590
    held_share: float = 0.2608
    context_token_s: float = 3.265e-7

    @property
    def costs(self) -> LinearCosts:
        return LinearCosts(
            self.compute_base_s,
            self.compute_token_s,
            self.transfer_base_s,
            self.transfer_token_s,
            min(self.held_share, 1.0),
            self.context_token_s,
        )


FIRST_GUESS = Model(0.012, 0.0007, 0.001, 0.001, 0.0015, 24_000, 0.6, 6e-7)
"""Where the fit begins.

6.5 GB of weights at 504 GB/s; a hidden state of 10 KB, with its residual 20 KB, at 100 Mbps; what
the weights leave of 12 GB, at 0.2 MB a token, read in 0.4 us; sending that partly holds up who
sends.
"""


def run(workload: Workload, system: str, model: Model) -> Served:
    requests = [
        Request(workload.prompt_tokens, workload.output_tokens) for _ in range(workload.requests)
    ]
    memory = KvMemory(round(model.kv_tokens))
    costs = model.costs
    admission: GreedyAdmission
    if system == 'baseline':
        admission = GreedyAdmission(requests, memory, MOST_TOKENS, STAGES)
    else:

        def count(tokens: int, context: int) -> int:
            if system == 'budget':
                return STAGES
            if system == 'both':
                return least_gap_count(STAGES, MOST_MICRO_BATCHES, tokens, costs)
            return best_count(STAGES, MOST_MICRO_BATCHES, tokens, costs, return_s=model.return_s)

        admission = SpreadAdmission(requests, memory, MOST_TOKENS, count)
    return serve(admission, costs, stages=STAGES, return_s=model.return_s)


def times(served: Served) -> Times:
    """As the paper counts: a GPU that executes a kernel is not idle, and sending is one."""
    busy_s = served.busy_s + served.held_s
    return Times(served.completion_s, busy_s, served.completion_s - busy_s)


def misfit(logs: FloatArray) -> float:
    """Mean squared log ratio of completion, busy, idle times and gains to the measured ones.

    Gains, by which the systems are compared, are small: an error of theirs counts double.
    """
    model = Model(*np.exp(logs).tolist())
    errors = []
    for workload in FITTED:
        off = []
        for system, paper in zip(SYSTEMS, PAPER[workload], strict=True):
            got = times(run(workload, system, model))
            off.append(math.log(got.completion_s / paper.completion_s))
            errors.append(math.log(got.idle_s / paper.idle_s))
            errors.append(math.log(got.busy_s / paper.busy_s))
        errors += off
        errors += [2 * (off[1] - off[0]), 2 * (off[2] - off[1])]
    return fmean(error**2 for error in errors)


def fit(evaluations: int, seed: int = 1) -> Model:
    """Random steps from the best point so far, ever shorter where they do not help."""
    rng = np.random.default_rng(seed)
    best = np.log(list(asdict(FIRST_GUESS).values()))
    least, step = misfit(best), 0.3
    for number in range(evaluations):
        # A few parameters at a time: most steps in all of them at once are bad.
        chosen = rng.random(len(best)) < 0.5
        trial = best + chosen * rng.normal(0, step, len(best))
        found = misfit(trial)
        step = min(0.5, step * 1.5) if found < least else max(0.01, step * 0.93)
        if found < least:
            best, least = trial, found
            values = ', '.join(f'{value:.4g}' for value in np.exp(best))
            print(f'{number:4}  rms {math.sqrt(least):.4f}  {values}', flush=True)
    return Model(*np.exp(best).tolist())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--fit', type=int, metavar='EVALUATIONS', help='find the cost model again')
    parser.add_argument('--json')
    options = parser.parse_args()
    if options.fit is not None:
        print(fit(options.fit))
        return
    model = Model()
    systems = (*SYSTEMS, OURS)
    print('completion (s), in brackets as measured in the paper; idle less than baseline (%)')
    print(
        f'{"workload":>13}', *(f'{system:>15}' for system in systems), '   both     paper    ours'
    )
    rows = []
    for workload, paper in PAPER.items():
        served = {system: run(workload, system, model) for system in systems}
        gains = {s: improvement(times(served['baseline']), times(served[s])) for s in systems}
        measured = improvement(paper[0], paper[2])
        cells = [
            f'{served[system].completion_s:7.1f} ({known.completion_s:6.1f})'
            for system, known in zip(SYSTEMS, paper, strict=True)
        ]
        idle = (gains['both'].idle_pct, measured.idle_pct, gains[OURS].idle_pct)
        print(
            f'{workload!s:>13}',
            *(f'{cell:>15}' for cell in cells),
            f'{served[OURS].completion_s:15.1f}',
            *(f'{value:8.1f}' for value in idle),
        )
        rows.append(
            {
                'workload': str(workload),
                'fitted': workload in FITTED,
                'served': {
                    s: served[s]._asdict() | {'idle_s': times(served[s]).idle_s} for s in systems
                },
                'gains': {s: gains[s]._asdict() for s in systems},
                'paper': {s: t._asdict() for s, t in zip(SYSTEMS, paper, strict=True)},
            }
        )
    figures = {'model': asdict(model), 'rows': rows}
    save('pipeline', figures, targets_of(rows), path=options.json)


def targets_of(rows: list[dict[str, Any]]) -> list[Target]:
    def completion_s(row: dict[str, Any], system: str) -> float:
        return float(row['served'][system]['completion_s'])

    in_order = sum(
        completion_s(row, 'baseline') > completion_s(row, 'budget') > completion_s(row, 'both')
        for row in rows
    )
    speedup = fmean(row['gains']['both']['speedup'] for row in rows)
    idle = fmean(row['gains']['both']['idle_pct'] for row in rows)
    worst = max(completion_s(row, OURS) / completion_s(row, 'both') for row in rows)
    predicted = [
        abs(math.log(completion_s(row, system) / row['paper'][system]['completion_s']))
        for row in rows
        if not row['fitted']
        for system in SYSTEMS
    ]
    return [
        Target('rows with baseline > budget > both', in_order, '>=', 10),
        Target('mean speed-up, both', speedup, '>=', 1.2),
        Target('mean speed-up, both', speedup, '<=', 1.4),
        Target('mean idle reduction, both (%)', idle, '>=', 30),
        Target('mean idle reduction, both (%)', idle, '<=', 45),
        Target('worst completion, period over algorithm 2', worst, '<=', 1.0),
        Target('mean error of predicted completions', math.expm1(fmean(predicted)), '<=', 0.15),
    ]


if __name__ == '__main__':
    main()
