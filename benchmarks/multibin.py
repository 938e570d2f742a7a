"""Multi-bin batching on the real engine: static batches of the embedded model, figures 7 and 11.

    .venv/bin/python benchmarks/multibin.py [--requests 512] [--plans 160] [--json FILE]

Lengths are forced: lognormal with a coefficient of variation of 0.5 around a mean of 48 tokens,
which stands for the spread of GSM8K's answers. A static batch of 8 is computed until its longest
has ended, rows that have ended with it, as an accelerator of fixed shapes does. All requests are
there at the beginning. Oracle: the lengths are known. Predicted: each request is put into a
neighbouring bin as often as the paper's predictor does (62.97 % of 4 bins right). Then the same
requests with continuous batching, and with rows that leave their batch when they end. At last the
model's own plans of drawn tasks, with lengths learned from the first answers.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from _multibin_plots import finish, picture
from _results import Target, save
from rich.progress import Progress

from lrtrace.generate import BinOptions, cut, generate
from lrtrace.generate_command import RequestMaker
from lrtrace.static_batches import bins_with_errors
from timely_llm_ros.engines.engine import GenerationRequest
from timely_llm_ros.engines.model_files import SHIPPED_MODEL, find_model
from timely_llm_ros.engines.torch_model import load_model
from timely_llm_ros.engines.torch_static import StaticBatches, serve_continuously
from timely_llm_ros.model.data import sample_task
from timely_llm_ros.planning.prompt_file import OfflinePrompt
from timely_llm_ros.scheduling.bin_boundaries import mean_service
from timely_llm_ros.skills.prompt import Prompt
from timely_llm_ros.skills.scene import Scene
from timely_llm_ros.skills.skillset import find_skill_set
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from timely_llm_ros.engines.torch_model import LoadedModel

IMAGES = Path(__file__).resolve().parents[1] / 'docs' / 'images'
BATCH, MEAN_TOKENS, VARIATION = 8, 48, 0.5
BINS = (1, 2, 4, 8, 16, 32)
RIGHT_OF_4 = 0.6297
"""Share of requests that the paper's predictor puts into the right one of four bins."""
KINDS = (1, 3, 4, 5, 6, 9, 10, 11)


def draw_lengths(count: int) -> list[int]:
    """Lengths of that mean and coefficient of variation."""
    sigma = np.sqrt(np.log(1 + VARIATION**2))
    drawn = np.random.default_rng(0).lognormal(np.log(MEAN_TOKENS) - sigma**2 / 2, sigma, count)
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

    def static(self, order: Sequence[Sequence[int]], *, padding: bool = True) -> float:
        """Serve these batches; return requests per second."""
        server = StaticBatches(self.loaded, padding=padding)
        started_s = time.perf_counter()
        for batch in order:
            for got in server.serve([self._requests[number] for number in batch]):
                if got.tokens != self.lengths[int(got.generation_id)]:
                    raise SystemExit(f'{got}: expected {self.lengths[int(got.generation_id)]}')
        return len(self.lengths) / (time.perf_counter() - started_s)

    def continuous(self) -> float:
        """Serve all of them as places become free; return requests per second."""
        started_s = time.perf_counter()
        count = sum(1 for _ in serve_continuously(self.loaded, self._requests, batch=BATCH))
        return count / (time.perf_counter() - started_s)


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


def equally_full(lengths: list[int], bins: int) -> list[int]:
    """Bins of equally many requests; of equal lengths at a boundary the first go below."""
    ranks = np.argsort(np.argsort(lengths, kind='stable'), kind='stable')
    return [int(rank) * bins // len(lengths) for rank in ranks]


def in_bins(lengths: list[int], edges: Sequence[float]) -> list[int]:
    return [int(place) for place in np.searchsorted(edges[1:-1], lengths, side='right')]


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
    from lrtrace.length_features import LengthFeatures

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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--requests', type=int, default=512)
    parser.add_argument('--plans', type=int, default=160)
    parser.add_argument('--images', type=Path, default=IMAGES)
    parser.add_argument('--json')
    options = parser.parse_args()
    if options.requests < 256 or options.plans < 32:
        parser.error('expected at least 256 requests and 32 plans')
    loaded = load_model(find_model(SHIPPED_MODEL), max_kv_tokens=16384)
    lengths = draw_lengths(options.requests)
    bench = Bench(loaded, lengths)
    equal: dict[int, float] = {}
    optimal: dict[int, float] = {}
    services: dict[str, dict[int, float]] = {'equal': {}, 'optimal': {}}
    others: dict[str, float] = {}
    with Progress() as progress:
        bar = progress.add_task('runs', total=len(BINS) + 9)

        def note(found: dict[Any, float], key: Any, value: float) -> None:
            found[key] = value
            progress.advance(bar)

        bench.static(batches([0] * 64))
        for k in BINS:
            edges = cut(lengths, BinOptions(k, BATCH, 'equal', 'oracle'))
            services['equal'][k] = mean_service(lengths, edges, BATCH)
            note(equal, k, bench.static(batches(equally_full(lengths, k))))
            if k in (2, 4, 8):
                edges = cut(lengths, BinOptions(k, BATCH, 'optimal', 'oracle'))
                services['optimal'][k] = mean_service(lengths, edges, BATCH)
                note(optimal, k, bench.static(batches(in_bins(lengths, edges))))
        edges = cut(lengths, BinOptions(4, BATCH, 'optimal', 'oracle'))
        right = np.array(in_bins(lengths, edges))
        error = (1 - RIGHT_OF_4) * 4 / 6
        moved = bins_with_errors(np.random.default_rng(1), right, 4, error)
        note(others, 'four bins, predicted', bench.static(batches(moved.tolist())))
        note(others, 'continuous', bench.continuous())
        for k in (1, 4):
            edges = cut(lengths, BinOptions(k, BATCH, 'optimal', 'oracle'))
            served = bench.static(batches(in_bins(lengths, edges)), padding=False)
            note(others, f'{k} bins, rows leave', served)
        # The first again: whether the machine has stayed the same.
        note(others, 'one bin again', bench.static(batches([0] * len(lengths))))
        own = plans(loaded, options.plans)
        progress.advance(bar)
    base = (equal[1] + others['one bin again']) / 2
    print(f'{"bins":>5} {"equal masses":>22} {"optimal":>22}   requests/s, over one bin')
    for k in BINS:
        cells = [
            f'{found[k]:12.2f} {100 * (found[k] / base - 1):+8.1f} %' if k in found else ''
            for found in (equal, optimal)
        ]
        print(f'{k:5}', *(f'{cell:>22}' for cell in cells))
    for name, value in others.items():
        print(f'{name:>22}: {value:7.2f} requests/s, {100 * (value / base - 1):+6.1f} %')
    for name, value in own.items():
        print(f'own plans, {name}: {value:.2f}')
    draw(options.images / 'multibin_fig7_fig11.png', equal, optimal, others, base)
    drawn = np.array(lengths)
    figures = {
        'lengths': {
            'mean': float(drawn.mean()),
            'variation': float(drawn.std() / drawn.mean()),
            'longest': int(drawn.max()),
        },
        'equal_per_s': equal,
        'optimal_per_s': optimal,
        'mean_batch_tokens': services,
        'others_per_s': others,
        'own_plans_per_s': own,
    }
    both = [k for k in optimal if k in equal]
    save(
        'multibin',
        figures,
        [
            Target(
                '4 bins, oracle: more throughput', max(equal[4], optimal[4]) / base - 1, '>=', 0.45
            ),
            Target('32 bins, oracle: more throughput', equal[32] / base - 1, '>=', 0.70),
            Target(
                '4 bins, predicted: more throughput',
                others['four bins, predicted'] / base - 1,
                '>=',
                0.08,
            ),
            Target(
                'optimal over equal masses, mean of 2, 4 and 8 bins',
                float(np.mean([optimal[k] / equal[k] for k in both])),
                '>=',
                1.0,
            ),
        ],
        path=options.json,
    )


def draw(
    path: Path,
    equal: dict[int, float],
    optimal: dict[int, float],
    others: dict[str, float],
    base: float,
) -> None:
    figure, axes = picture(path, 1)
    for label, found in (('oracle, equal masses', equal), ('oracle, optimal', optimal)):
        points = sorted(found.items())
        axes[0].plot(*zip(*points, strict=True), marker='.', label=label)
    axes[0].plot([4], [others['four bins, predicted']], 'x', label='predicted')
    axes[0].axhline(others['continuous'], color='grey', linestyle='--', label='continuous')
    axes[0].axhline(base, color='grey', linestyle=':', label='one bin')
    axes[0].set_xscale('log', base=2)
    finish(figure, axes, 'bins', ['requests/s'], path)


if __name__ == '__main__':
    main()
