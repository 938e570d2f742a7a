"""Ten workloads on a pipeline of four stages with slow links, served five ways, simulated.

    .venv/bin/python -m benchmarks.micro_batch.pipeline [--fit EVALUATIONS] [--json FILE]

``baseline``: vLLM's rules, as many new requests in a micro-batch as fit. ``budget``: prefill and
decoding spread evenly (algorithm 1). ``both``: that and algorithm 2's number of micro-batches.
``period``: the number with the shortest round. ``sure``: algorithm 2's number unless another's
round is clearly shorter. The workloads and the measured times are Table 1 of preprints 202512.0788.

There is one cost model for all rows and systems; ``--fit`` finds it again from the whole table.
"""

from __future__ import annotations

import json
import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common import COUNT, FOLDER, FROM_ZERO, Target, arguments, command, save
from benchmarks.micro_batch.pipeline_serving import (
    GreedyAdmission,
    KvMemory,
    Request,
    Served,
    SpreadAdmission,
    Workload,
    serve,
)
from benchmarks.micro_batch.pipeline_table import PAPER, SYSTEMS, Improvement, Times, improvement
from timely_llm_ros.scheduling import LinearCosts, PipelineModel

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

STAGES = 4
MOST_TOKENS = 1024
"""Most of a micro-batch. The paper does not say; of 512, 1024 and 2048 this fits best."""
MOST_MICRO_BATCHES = 16
MODEL = FOLDER / 'pipeline_model.json'
"""What the last ``--fit`` found."""
WEIGHTS_S = 6.5e9 / 504e9
"""Reading a stage's weights from the memory of an RTX 4070: no micro-batch can be quicker."""
OURS = ('period', 'sure')


@dataclass(frozen=True, slots=True)
class Model:
    """The cost model.

    A micro-batch keeps a stage for ``host_s`` in which its GPU executes nothing (Python, Ray,
    launching kernels), then for reading the weights, for ``kernel_more_s`` and for what its tokens
    and their contexts take.
    """

    kernel_more_s: float
    host_s: float
    compute_token_s: float
    transfer_base_s: float
    transfer_token_s: float
    return_s: float
    kv_tokens: float
    held_share: float
    context_token_s: float

    @property
    def costs(self) -> LinearCosts:
        return LinearCosts(
            WEIGHTS_S + self.kernel_more_s + self.host_s,
            self.compute_token_s,
            self.transfer_base_s,
            self.transfer_token_s,
            min(self.held_share, 1.0),
            self.context_token_s,
        )


FIRST_GUESS = Model(0.00062, 0.0055, 0.00011, 0.00096, 0.0014, 0.004, 19_000, 0.18, 1e-7)
"""Where the fit begins.

A few milliseconds of Python; 6.5 GFLOP a token at 50 TFLOP/s; a hidden state and its residual,
20 KB, at 100 Mbps; what weights and activations leave of 12 GB, at 0.2 MB a token, of which each
GPU holds a quarter of the layers; sending that partly holds up who sends. Then rounded to where an
earlier search had come.
"""

WHOLE = 40.0
"""What an error of the table as a whole counts beside the mean of its rows' errors."""


def run(workload: Workload, system: str, model: Model) -> Served:
    requests = [
        Request(workload.prompt_tokens, workload.output_tokens) for _ in range(workload.requests)
    ]
    memory = KvMemory(round(model.kv_tokens))
    pipeline = PipelineModel(STAGES, MOST_MICRO_BATCHES, model.costs, model.return_s)
    admission: GreedyAdmission
    if system == 'baseline':
        admission = GreedyAdmission(requests, memory, MOST_TOKENS, STAGES)
    else:

        def count(tokens: int, context: int) -> int:
            if system == 'budget':
                return STAGES
            if system == 'both':
                return pipeline.least_gap_count(tokens)
            ours = pipeline.best_count if system == 'period' else pipeline.sure_count
            return ours(tokens, context)

        admission = SpreadAdmission(requests, memory, MOST_TOKENS, count)
    return serve(admission, model.costs, stages=STAGES, return_s=model.return_s)


def times(served: Served, model: Model) -> Times:
    """As the paper counts: a GPU that executes a kernel is not idle, and sending is one."""
    busy_s = served.busy_s + served.held_s - model.host_s * served.micro_batches
    return Times(served.completion_s, busy_s, served.completion_s - busy_s)


MARGIN = 0.005
"""By how much each system is to be ahead of the one before."""


def row_errors(workload: Workload, model: Model) -> tuple[list[float], float, Improvement]:
    """Return a workload's log ratios to the measured times, how far systems are out of order, and
    what the whole scheme gains.
    """
    served = [times(run(workload, system, model), model) for system in SYSTEMS]
    known = PAPER[workload]
    logs = [
        [math.log(mine / theirs) for mine, theirs in zip(got, paper, strict=True)]
        for got, paper in zip(served, known, strict=True)
    ]
    errors = [log for of_system in logs for log in of_system]
    # Gains, by which the systems are compared, are small: an error of theirs counts double.
    errors += [2 * (logs[place + 1][0] - logs[place][0]) for place in (0, 1)]
    errors += [2 * (logs[2][2] - logs[0][2])]
    ahead = [math.log(before[0] / after[0]) for before, after in pairwise(served)]
    disorder = sum(max(0.0, MARGIN - one) ** 2 for one in ahead)
    return errors, disorder, improvement(served[0], served[2])


def misfit(logs: FloatArray, workers: Executor) -> float:
    """How far the table is off the measured one.

    The mean squared log ratio of completion, busy and idle times and of gains, and what is asked
    of the table as a whole: mean speed-up, mean idle reduction and the order of the systems.
    """
    model = Model(*np.exp(logs).tolist())
    rows = list(workers.map(partial(row_errors, model=model), PAPER))
    errors = [error for row, _, _ in rows for error in row]
    known = [improvement(first, last) for first, _, last in PAPER.values()]
    whole = [
        math.log(fmean(getattr(gain, name) for _, _, gain in rows))
        - math.log(fmean(getattr(gain, name) for gain in known))
        for name in ('speedup', 'idle_pct')
    ]
    disorder = sum(disorder for _, disorder, _ in rows)
    return fmean(error**2 for error in errors) + WHOLE * sum(x * x for x in whole) + 100 * disorder


def fit(evaluations: int, seed: int = 1) -> Model:
    """Random steps from the best point so far, ever shorter where they do not help."""
    rng = np.random.default_rng(seed)
    best = np.log(list(asdict(FIRST_GUESS).values()))
    workers = ProcessPoolExecutor()
    least, step = misfit(best, workers), 0.1
    for number in range(evaluations):
        # A few parameters at a time: most steps in all of them at once are bad.
        chosen = rng.random(len(best)) < 0.5
        trial = best + chosen * rng.normal(0, step, len(best))
        found = misfit(trial, workers)
        step = min(0.5, step * 1.5) if found < least else max(0.01, step * 0.93)
        if found < least:
            best, least = trial, found
            values = ', '.join(f'{value:.4g}' for value in np.exp(best))
            print(f'{number:4}  rms {math.sqrt(least):.4f}  {values}', flush=True)
    workers.shutdown()
    return Model(*np.exp(best).tolist())


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        '--fit', type=COUNT, metavar='EVALUATIONS', help='find the cost model again'
    )
    parser.add_argument('--seed', type=FROM_ZERO, default=1, help='of the fit')
    options = parser.parse_args()
    if options.fit is not None:
        found = fit(options.fit, options.seed)
        rounded = {name: float(f'{value:.4g}') for name, value in asdict(found).items()}
        content = {'command': command(), 'model': rounded}
        MODEL.write_text(json.dumps(content, indent=1) + '\n', encoding='utf-8')
        print(f'written to {MODEL}')
        return
    fitted = json.loads(MODEL.read_text(encoding='utf-8'))
    model = Model(**fitted['model'])
    systems = (*SYSTEMS, *OURS)
    print('completion (s), in brackets as measured in the paper; idle less than baseline (%)')
    print(
        f'{"workload":>13}', *(f'{system:>15}' for system in systems), '   both     paper    ours'
    )
    rows = []
    for workload, paper in PAPER.items():
        served = {system: run(workload, system, model) for system in systems}
        gains = {
            s: improvement(times(served['baseline'], model), times(served[s], model))
            for s in systems
        }
        measured = improvement(paper[0], paper[2])
        cells = [
            f'{served[system].completion_s:7.1f} ({known.completion_s:6.1f})'
            for system, known in zip(SYSTEMS, paper, strict=True)
        ]
        idle = (gains['both'].idle_pct, measured.idle_pct, gains['period'].idle_pct)
        print(
            f'{workload!s:>13}',
            *(f'{cell:>15}' for cell in cells),
            *(f'{served[system].completion_s:15.1f}' for system in OURS),
            *(f'{value:8.1f}' for value in idle),
        )
        rows.append(
            {
                'workload': str(workload),
                'served': {
                    s: served[s]._asdict() | {'idle_s': times(served[s], model).idle_s}
                    for s in systems
                },
                'gains': {s: gains[s]._asdict() for s in systems},
                'paper': {s: t._asdict() for s, t in zip(SYSTEMS, paper, strict=True)},
            }
        )
    figures = {'model': asdict(model), 'fitted_by': fitted['command'], 'rows': rows}
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
    worst = max(completion_s(row, 'sure') / completion_s(row, 'both') for row in rows)
    off = [
        abs(math.log(completion_s(row, system) / row['paper'][system]['completion_s']))
        for row in rows
        for system in SYSTEMS
    ]
    return [
        Target('rows with baseline > budget > both', in_order, '>=', 10),
        Target('mean speed-up, both', speedup, '>=', 1.2),
        Target('mean speed-up, both', speedup, '<=', 1.4),
        Target('mean idle reduction, both (%)', idle, '>=', 30),
        Target('mean idle reduction, both (%)', idle, '<=', 45),
        Target('worst completion, sure over algorithm 2', worst, '<=', 1.0),
        Target('mean error of completion times', math.expm1(fmean(off)), '<=', 0.15),
    ]


if __name__ == '__main__':
    main()
