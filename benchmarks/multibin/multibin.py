"""Multi-bin batching on the real engine: static batches of the embedded model, figures 7 and 11.

    .venv/bin/python -m benchmarks.multibin.multibin [--requests 768] [--plans 160] [--json FILE]
    .venv/bin/python -m benchmarks.multibin.multibin --requests 256 --bins 1 4 32 --plans 0

Lengths are forced: lognormal with a coefficient of variation of 0.5, which stands for the spread
of GSM8K's answers (the paper's lengths are not published). A static batch of 8 is computed until
its longest has ended, rows that have ended with it, as an accelerator of fixed shapes does. All
requests are there at the beginning and bins hold whole batches, as in the theory. Oracle: the
lengths are known. Predicted: each request is put into a neighbouring bin as often as the paper's
predictor does (62.97 % of 4 bins right). Then the same requests with continuous batching, and with
rows that leave their batch when they end. All ways take turns, batch by batch. At last the model's
own plans of drawn tasks, with lengths learned from the first answers.
"""

from __future__ import annotations

import random
import time
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.progress import Progress

from benchmarks.common import (
    COUNT,
    FROM_ZERO,
    Number,
    Target,
    Way,
    arguments,
    finish,
    gain,
    gain_errors,
    new_folder,
    picture,
    require_matplotlib,
    run_in_turns,
    save,
)
from benchmarks.multibin.static_batches import bins_with_errors
from benchmarks.multibin.theory import sample_service
from timely_llm_ros.engines import GenerationRequest
from timely_llm_ros.engines.tokens import SHIPPED_MODEL, find_model
from timely_llm_ros.engines.torch.compute import StaticBatches, load_model, serve_continuously
from timely_llm_ros.offline import BinOptions, RequestMaker, generate
from timely_llm_ros.planner.prompts import OfflinePrompt
from timely_llm_ros.sample_tasks import sample_task
from timely_llm_ros.scheduling import optimal_boundaries
from timely_llm_ros.skills import Prompt, Scene
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from timely_llm_ros.engines.torch.compute import LoadedModel

IMAGES = Path(__file__).resolve().parents[2] / 'docs' / 'images'
BATCH, MEAN_TOKENS, VARIATION = 8, 48, 0.5
BINS = (1, 2, 4, 8, 16, 32)
RIGHT_OF_4 = 0.6297
"""Share of requests that the paper's predictor puts into the right one of four bins."""
KINDS = (1, 3, 4, 5, 6, 9, 10, 11)
TURNS = 24
"""Pieces of a continuous run."""


def draw_lengths(count: int, mean: float) -> list[int]:
    """Lengths of that mean and that coefficient of variation."""
    sigma = np.sqrt(np.log(1 + VARIATION**2))
    drawn = np.random.default_rng(0).lognormal(np.log(mean) - sigma**2 / 2, sigma, count)
    return [max(1, round(float(length))) for length in drawn]


class Bench:
    """The model and the requests of forced lengths."""

    def __init__(self, loaded: LoadedModel, lengths: list[int]) -> None:
        self.loaded, self.lengths = loaded, lengths
        ids = loaded.texts.encode('takeoff;take_picture;move_forward(50);' * 40)
        fixed = 'a robot that does what it is told; '
        skills = find_skill_set('tello')
        self._requests = [
            GenerationRequest(
                str(number),
                Prompt(fixed, f'task {number}: go on; '),
                skills,
                Scene(),
                NORMAL,
                0.0,
                max_tokens=length + 1,
                forced_token_ids=tuple(ids[at % len(ids)] for at in range(length)),
            )
            for number, length in enumerate(lengths)
        ]

    def static(self, name: str, order: Sequence[Sequence[int]], *, padding: bool = True) -> Way:
        """Serve these batches."""
        server = StaticBatches(self.loaded, padding=padding)

        def serve(batch: Sequence[int]) -> int:
            before = server.steps
            for got in server.serve([self._requests[number] for number in batch]):
                if got.tokens != self.lengths[int(got.generation_id)]:
                    raise SystemExit(f'{got}: expected {self.lengths[int(got.generation_id)]}')
            return server.steps - before

        return Way(name, [partial(serve, batch) for batch in order])

    def continuous(self) -> Way:
        """Serve all of them as places become free."""
        served = serve_continuously(self.loaded, self._requests, batch=BATCH)

        def serve(count: int) -> int:
            # How many steps it makes nobody counts: a piece's tokens stand for them.
            return sum(got.tokens for got in islice(served, count))

        parts = np.diff(np.linspace(0, len(self.lengths), TURNS + 1).round().astype(int))
        return Way('continuous', [partial(serve, int(part)) for part in parts])


def batches(bins: Sequence[int]) -> list[list[int]]:
    """Join requests into batches as they come, bin by bin; partial ones at the end."""
    open_: dict[int, list[int]] = {}
    order = []
    for number, place in enumerate(bins):
        waiting = open_.setdefault(place, [])
        waiting.append(number)
        if len(waiting) == BATCH:
            order.append(open_.pop(place))
    return order + list(open_.values())


def in_bins(lengths: list[int], sizes: Sequence[int]) -> list[int]:
    """Bins of so many requests each, shortest first; of equal lengths the first go below."""
    ranks = np.argsort(np.argsort(lengths, kind='stable'), kind='stable')
    return [int(place) for place in np.searchsorted(np.cumsum(sizes)[:-1], ranks, side='right')]


def equal_sizes(count: int, bins: int) -> list[int]:
    """Bins of equally many requests."""
    return [count // bins] * bins


def optimal_sizes(lengths: list[int], bins: int) -> list[int]:
    """The optimal boundaries' bins, in whole batches."""
    edges = optimal_boundaries(lengths, bins, BATCH)
    below = np.searchsorted(np.sort(lengths), edges[1:-1])
    cuts = [0, *(BATCH * np.round(below / BATCH).astype(int)).tolist(), len(lengths)]
    return [size for size in np.diff(cuts).tolist() if size]


def service_tokens(lengths: list[int], sizes: Sequence[int]) -> float:
    """Return the mean tokens of a batch that the theory expects of these bins (eq. 2)."""
    cuts = np.cumsum(sizes)[:-1]
    ordered = np.sort(lengths)
    edges = [0.0, *((ordered[cuts - 1] + ordered[cuts]) / 2).tolist(), float(ordered[-1]) + 1]
    return sample_service(lengths, edges, BATCH)


def plans(loaded: LoadedModel, count: int) -> dict[str, float]:
    """Plans per second of the model's own plans: one bin, learned lengths, known ones."""
    rng = random.Random(0)
    drawn = [sample_task(rng, rng.choice(KINDS), rng.randint(4, 12)) for _ in range(count)]
    prompts = [
        OfflinePrompt(str(number), one.skill_set, one.instruction, one.scene)
        for number, one in enumerate(drawn)
    ]
    request = RequestMaker(256)

    def run(options: BinOptions, given: list[OfflinePrompt]) -> tuple[float, dict[str, int]]:
        server = StaticBatches(loaded)
        started_s = time.perf_counter()
        tokens = {
            answer.id: answer.tokens
            for some in generate(
                iter(given), lambda batch: server.serve([request(one) for one in batch]), options
            )
            for answer in some
        }
        return len(given) / (time.perf_counter() - started_s), tokens

    teaching, asked = prompts[: count // 2], prompts[count // 2 :]
    one_bin, tokens = run(BinOptions(1, BATCH), asked)
    values = np.array(list(tokens.values()))
    from timely_llm_ros.offline import LengthFeatures

    taught = run(BinOptions(1, BATCH), teaching)[1]
    model = LengthFeatures(teaching, [taught[one.prompt_id] for one in teaching])

    def known(length: Callable[[OfflinePrompt], int]) -> list[OfflinePrompt]:
        return [
            OfflinePrompt(p.prompt_id, p.skill_set, p.instruction, p.scene, None, length(p))
            for p in asked
        ]

    oracle = BinOptions(4, BATCH, 'optimal', 'oracle')
    predicted, _ = run(oracle, known(lambda p: max(1, round(model.predict(p)))))
    true, _ = run(oracle, known(lambda p: tokens[p.prompt_id]))
    return {
        'one bin': one_bin,
        'four bins, learned': predicted,
        'four bins, oracle': true,
        'variation of the lengths': float(values.std() / values.mean()),
        'mean tokens': float(values.mean()),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        '--requests', type=COUNT, default=768, help='a multiple of 8 times the bins'
    )
    parser.add_argument('--mean', type=Number(8), default=MEAN_TOKENS, help='mean length (tokens)')
    parser.add_argument('--bins', type=COUNT, nargs='+', default=BINS, choices=BINS)
    parser.add_argument(
        '--plans', type=FROM_ZERO, default=160, help='own plans of the model; 0 for none'
    )
    parser.add_argument('--images', type=new_folder, default=IMAGES)
    options = parser.parse_args()
    bins = sorted({1, 4, *options.bins})
    if options.requests % (BATCH * bins[-1]):
        parser.error(
            f'--requests {options.requests}: expected a multiple of {BATCH * bins[-1]}, '
            f'full batches in each of {bins[-1]} bins'
        )
    if options.plans and options.plans < 32:
        parser.error(f'--plans {options.plans}: expected 0, or at least 32')
    require_matplotlib()
    loaded = load_model(find_model(SHIPPED_MODEL), max_kv_tokens=16384)
    lengths = draw_lengths(options.requests, options.mean)
    bench = Bench(loaded, lengths)
    sizes = {('equal', k): equal_sizes(len(lengths), k) for k in bins}
    sizes |= {('optimal', k): optimal_sizes(lengths, k) for k in bins if k > 1}
    placed = {key: in_bins(lengths, found) for key, found in sizes.items()}
    ways = {
        key: bench.static(f'{key[0]} {key[1]}', batches(found)) for key, found in placed.items()
    }
    base = ways['equal', 1]
    error = (1 - RIGHT_OF_4) * 4 / 6
    right = np.array(placed['optimal', 4])
    moved = bins_with_errors(np.random.default_rng(1), right, 4, error).tolist()
    leaving = {k: placed['optimal' if k > 1 else 'equal', k] for k in (1, 4)}
    others = [
        bench.static('four bins, predicted', batches(moved)),
        bench.continuous(),
        *(
            bench.static(f'{name}, rows leave', batches(leaving[k]), padding=False)
            for k, name in ((1, 'one bin'), (4, 'four bins'))
        ),
    ]
    everything = [*ways.values(), *others]
    own: dict[str, float] = {}
    with Progress() as progress:
        bar = progress.add_task('batches', total=sum(len(way.pieces) for way in everything))
        for piece in bench.static('warm-up', batches([0] * 64)).pieces:
            piece()
        run_in_turns(everything, lambda: progress.advance(bar))
        if options.plans:
            bar = progress.add_task('own plans', total=1)
            own = plans(loaded, options.plans)
            progress.advance(bar)
    errors = gain_errors(everything, base)
    gains = {way.name: gain(way, base) for way in everything}
    one = service_tokens(lengths, sizes['equal', 1])
    theory = {
        f'{kind} {k}': one / service_tokens(lengths, found) - 1
        for (kind, k), found in sizes.items()
    }
    # What the drawn batches would gain if every step took equally long and nothing else any time.
    steps = {
        way.name: sum(base.steps) / sum(way.steps) - 1
        for way in everything
        if way.name != 'continuous'
    }
    drawn = np.array(lengths)
    mean = float(drawn.mean())
    print(f'{"":>22} {"requests/s":>10} {"gain":>9} {"error":>8} {"steps":>8} {"theory":>8}   (%)')
    for way in everything:
        cells = [
            f'{100 * found[way.name]:8.1f}' if way.name in found else f'{"":8}'
            for found in (gains, errors, steps, theory)
        ]
        print(f'{way.name:>22} {len(lengths) / way.total_s:10.2f} ', *cells)
    print(f'bound, any number of bins: {100 * (one / mean - 1):.1f} %')
    for name, value in own.items():
        print(f'own plans, {name}: {value:.2f}')
    per_s = {way.name: len(lengths) / way.total_s for way in everything}
    draw(options.images / 'multibin_fig7_fig11.png', bins, per_s)
    figures = {
        'lengths': {
            'requests': len(lengths),
            'mean': mean,
            'variation': float(drawn.std() / mean),
            'longest': int(drawn.max()),
        },
        'per_s': per_s,
        'gain': gains,
        'gain_error': errors,
        'steps_gain': steps,
        'theory_gain': theory,
        'bound_gain': one / mean - 1,
        'step_ms': {
            way.name: 1000 * way.total_s / sum(way.steps)
            for way in everything
            if way.name != 'continuous'
        },
        'own_plans_per_s': own,
    }
    targets = [
        Target('4 bins, oracle: more throughput', gains['optimal 4'], '>=', 0.45),
        Target('4 bins, predicted: more throughput', gains['four bins, predicted'], '>=', 0.08),
        *(
            Target(
                f'{k} bins: optimal over equal masses',
                ways['equal', k].total_s / ways['optimal', k].total_s,
                '>=',
                1.0,
            )
            # Of more bins each has but a few batches, and whole batches leave little to choose.
            for k in bins
            if 1 < k <= 8
        ),
    ]
    if 32 in bins:
        asked = Target('32 bins, oracle: more throughput', gains['optimal 32'], '>=', 0.70)
        targets.insert(1, asked)
    save('multibin', figures, targets, path=options.json)


def draw(path: Path, bins: Sequence[int], per_s: dict[str, float]) -> None:
    figure, axes = picture(path, 1)
    for label, kind in (('oracle, equal masses', 'equal'), ('oracle, optimal', 'optimal')):
        found = [(k, per_s[f'{kind} {k}']) for k in bins if f'{kind} {k}' in per_s]
        axes[0].plot(*zip(*found, strict=True), marker='.', label=label)
    axes[0].plot([4], [per_s['four bins, predicted']], 'x', label='predicted')
    axes[0].axhline(per_s['continuous'], color='grey', linestyle='--', label='continuous')
    axes[0].axhline(per_s['equal 1'], color='grey', linestyle=':', label='one bin')
    axes[0].set_xscale('log', base=2)
    finish(figure, axes, 'bins', ['requests/s'], path)


if __name__ == '__main__':
    main()
