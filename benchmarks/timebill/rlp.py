"""TimeBill's table of response-length predictors on the embedded model: bucket sizes and baselines.

    .venv/bin/python -m benchmarks.timebill.rlp [--quick] [--samples FILE] [--json FILE]

Every one learns from the same plans of the model itself (trained scenes and wordings, 1 to 200
objects) and is judged on plans of held-out ones. Errors are of the mean of the predicted
distribution, and for buckets also of their upper edge, TimeBill's eq. 2. Times are those of the
predictor in numpy.
"""

from __future__ import annotations

import itertools
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault('OMP_NUM_THREADS', '1')

import numpy as np
import torch

from benchmarks.common import COUNT, Target, arguments, save
from benchmarks.timebill.predictor_prompt import longest_predictor_prompt
from timely_llm_ros.engines.tokens import SHIPPED_MODEL, find_model
from timely_llm_ros.engines.torch.compute import load_model
from timely_llm_ros.prediction.lengths import SmallBody
from timely_llm_ros.training import (
    ALL_SIZES,
    LONGEST,
    PROMPT_TOKENS,
    RlpTraining,
    body_weights,
    build_network,
    draw_requests,
    generate_samples,
    network_scores,
    read_samples,
    rlp_samples,
    target_embedding,
    train_network,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from timely_llm_ros.training import LengthSample

    Floats = NDArray[np.float64]

FOLDER = Path(find_model(SHIPPED_MODEL))
NGRAMS = 2048


@dataclass(frozen=True, slots=True)
class Row:
    """One predictor's errors on held-out plans (tokens)."""

    name: str
    mae: float
    rmse: float
    r2: float
    upper_mae: float | None = None
    train_s: float = 0.0


def row(name: str, found: Floats, truth: Floats, **more: Any) -> Row:
    errors = found - truth
    total = float(((truth - truth.mean()) ** 2).sum())
    return Row(
        name,
        float(np.abs(errors).mean()),
        float(np.sqrt((errors**2).mean())),
        1 - float((errors**2).sum()) / total,
        **more,
    )


def network_row(
    name: str,
    training: RlpTraining,
    learned: tuple[list[list[int]], list[int]],
    held_out: tuple[list[list[int]], list[int]],
) -> tuple[Row, Any]:
    started_s = time.perf_counter()
    network = build_network(training, *target_embedding(FOLDER))
    train_network(network, training, *learned)
    train_s = time.perf_counter() - started_s
    scores, truth = network_scores(network, held_out[0]), np.array(held_out[1], float)
    if training.size is None:
        return row(name, scores[:, 0] * training.longest, truth, train_s=train_s), network
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    middles = np.arange(training.classes) * training.size + (training.size + 1) / 2
    upper = (scores.argmax(axis=1) + 1.0) * training.size
    upper_mae = float(np.abs(upper - truth).mean())
    found = row(name, shares @ middles, truth, upper_mae=upper_mae, train_s=train_s)
    return found, network


def ngrams(prompts: Sequence[Sequence[int]]) -> Floats:
    """Counts of single tokens and pairs, hashed, and the prompt's length."""
    rows = np.zeros((len(prompts), NGRAMS + 2))
    for place, prompt in enumerate(prompts):
        for token in prompt:
            rows[place, (token * 2654435761) % NGRAMS] += 1
        for pair in itertools.pairwise(prompt):
            rows[place, (pair[0] * 40503 + pair[1] * 2654435761) % NGRAMS] += 1
        rows[place, NGRAMS:] = 1, len(prompt) / 100
    return np.log1p(rows)


def ngram_row(
    learned: tuple[list[list[int]], list[int]], held_out: tuple[list[list[int]], list[int]]
) -> Row:
    """Ridge regression on n-grams of the prompt."""
    started_s = time.perf_counter()
    inputs, truth = ngrams(learned[0]), np.array(learned[1], float)
    weights = np.linalg.solve(inputs.T @ inputs + 3.0 * np.eye(inputs.shape[1]), inputs.T @ truth)
    train_s = time.perf_counter() - started_s
    return row(
        'n-grams, ridge', ngrams(held_out[0]) @ weights, np.array(held_out[1], float),
        train_s=train_s,
    )  # fmt: skip


def predictor_times(network: Any, training: RlpTraining) -> dict[str, Any]:
    """How long a prediction takes over prompt lengths, and which prompt hides in a prefill."""
    body = SmallBody(training.shape, body_weights(network))
    rng = np.random.default_rng(0)
    lengths = np.array([16, 32, 64, 96, 128, 192])
    times_s = []
    for length in lengths:
        ids = rng.integers(1000, size=length).tolist()
        spent = []
        for _ in range(30):
            started_s = time.perf_counter()
            body.scores(ids)
            spent.append(time.perf_counter() - started_s)
        times_s.append(float(np.median(spent)))
    square = np.stack([lengths**2, lengths, np.ones(len(lengths))], axis=1)
    fit = np.maximum(np.linalg.lstsq(square, np.array(times_s), rcond=None)[0], 0.0)
    square_s, token_s, constant_s = map(float, fit)
    return {
        'ms': {f'{n}': round(1e3 * it, 3) for n, it in zip(lengths, times_s, strict=True)},
        'longest_prompt_that_hides_in': {
            f'{ms} ms': longest_predictor_prompt(square_s, token_s, constant_s, ms / 1e3)
            for ms in (3, 5, 10, 20)
        },
    }


def samples(options: argparse.Namespace) -> tuple[list[LengthSample], list[LengthSample]]:
    if options.samples:
        learned = read_samples(options.samples)
    else:
        loaded = load_model(str(FOLDER), max_kv_tokens=32768)
        requests = draw_requests(options.plans, 0, 'trained', sizes=ALL_SIZES)
        learned = list(generate_samples(loaded, requests).values())
    loaded = load_model(str(FOLDER), max_kv_tokens=32768)
    requests = draw_requests(options.held_out, 1, 'held_out', sizes=ALL_SIZES)
    return learned, list(generate_samples(loaded, requests).values())


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--quick', action='store_true', help='a rough picture in two minutes')
    parser.add_argument('--plans', type=COUNT, help='to learn from (default 2400, quick 600)')
    parser.add_argument('--held-out', type=COUNT, help='to judge on (default 400, quick 120)')
    parser.add_argument('--epochs', type=COUNT, help='of every network (default 16, quick 6)')
    parser.add_argument('--samples', type=Path, help='plans to learn from, generated before')
    options = parser.parse_args()
    started_s = time.perf_counter()
    quick = options.quick
    options.plans = options.plans or (600 if quick else 2400)
    options.held_out = options.held_out or (120 if quick else 400)
    options.epochs = options.epochs or (6 if quick else 16)
    torch.set_num_threads(1)
    learned, held_out = (rlp_samples(FOLDER, part) for part in samples(options))
    truth = np.array(held_out[1], float)
    rows = [row('mean of all plans', np.full(len(truth), np.mean(learned[1])), truth)]
    rows.append(ngram_row(learned, held_out))
    print(f'{"predictor":26} {"MAE":>6} {"RMSE":>6} {"R2":>7} {"eq. 2":>6} {"learned in":>10}')
    for one in rows:
        show(one)
    times: dict[str, Any] = {}
    for name, size, body in (
        ('buckets of 4', 4, 'qwen2'),
        ('buckets of 16', 16, 'qwen2'),
        ('buckets of 32', 32, 'qwen2'),
        ('buckets of 64', 64, 'qwen2'),
        ('regression', None, 'qwen2'),
        ('encoder, buckets of 16', 16, 'bert'),
    ):
        training = RlpTraining(size=size, body=body, longest=LONGEST, epochs=options.epochs)  # type: ignore[arg-type]
        one, network = network_row(name, training, learned, held_out)
        rows.append(one)
        show(one)
        if size == 4:
            times = predictor_times(network, training)
    by = {one.name: one for one in rows}
    figures = {
        'learned_from': len(learned[0]),
        'held_out': len(held_out[0]),
        'prompt_tokens': PROMPT_TOKENS,
        'rows': [
            {
                'name': one.name,
                'mae': round(one.mae, 3),
                'rmse': round(one.rmse, 3),
                'r2': round(one.r2, 4),
                'upper_edge_mae': None if one.upper_mae is None else round(one.upper_mae, 3),
                'train_s': round(one.train_s, 1),
            }
            for one in rows
        ],
        'times': times,
        'wall_s': time.perf_counter() - started_s,
    }
    paper = [by[f'buckets of {size}'].mae for size in (16, 32, 64)]
    targets = [
        Target(
            'MAE, buckets of 16 against 32 and 64 (ratio)', paper[0] / min(paper[1:]), '<=', 1.0
        ),
        Target(
            'MAE, buckets of 16 against the encoder (ratio)',
            paper[0] / by['encoder, buckets of 16'].mae,
            '<=',
            1.0,
        ),
        Target(
            'MAE, buckets of 4 against regression (ratio)',
            by['buckets of 4'].mae / by['regression'].mae,
            '<=',
            1.0,
        ),
    ]
    save('rlp', figures, targets, path=options.json)


def show(one: Row) -> None:
    upper = '' if one.upper_mae is None else f'{one.upper_mae:6.2f}'
    print(
        f'{one.name:26} {one.mae:6.2f} {one.rmse:6.2f} {one.r2:7.3f} {upper:>6} '
        f'{one.train_s:8.0f} s',
        flush=True,
    )


if __name__ == '__main__':
    main()
