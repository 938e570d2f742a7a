"""What serving in segments gains on a general model that chooses its own tokens.

``make bench-llm_serving``: the contention of ``make bench-contention`` on SmolLM2-135M with the
shipped adapter, every way to serve at its best batch; chats of the model without it, sentence by
sentence against whole answers; what cutting, checking and suspending cost; and whether plans have
the same tokens however they are served. All in real time on the torch engine. ``make
model-smollm2`` makes the model; with ``--device cuda`` a GPU computes it.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import COUNT, FROM_ZERO, Number, Target, arguments, save
from benchmarks.llm import draw_questions
from benchmarks.timelyllm import segmentation
from benchmarks.timelyllm.contention import Fleet, Job, measure, served_as
from benchmarks.timelyllm.systems import WAYS, best_of, show, targets
from timely_llm_ros.engines.tokens import Sampling, find_model
from timely_llm_ros.engines.torch import TorchConfig
from timely_llm_ros.skills import Scene
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

OPEN_FORMS = ('question', 'paragraph', 'page')
"""Forms of questions whose answers have more than a sentence or two."""

CHAT_WAYS = {'whole answers': 'whole_plan', 'sentences': 'segmented least_loss, lookahead'}
"""How chats are served, by what the table calls it."""

SAMPLING = Sampling(temperature=0.7, top_p=0.9, seed=0)
"""Of chats."""

CHAT_LOAD = 0.9
"""Of what the engine serves when all come at once."""

RESPONSE = 0.25
"""Longest first response in sentences, over that of whole answers, that is wanted."""

PLANS, ROUNDS = 12, 5
"""Plans that are written both ways, and how often, to see what segmentation costs."""

OVERHEAD = 2.0
"""Most of the time that segmentation may take (%)."""


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument('--model', default='models/smollm2-tuned', help='of plans (%(default)s)')
    parser.add_argument('--chat-model', default='models/smollm2', help='of chats (%(default)s)')
    parser.add_argument('--device', default='cpu', help='where torch computes (%(default)s)')
    parser.add_argument(
        '--minutes', type=Number(0.05, 600, whole=False), default=10.0, help='of each run of plans'
    )
    parser.add_argument('--batches', type=COUNT, nargs='+', default=[4, 12])
    parser.add_argument('--chats', type=COUNT, default=24, help='(default: %(default)s)')
    parser.add_argument('--threads', type=COUNT, default=1)
    parser.add_argument('--seed', type=FROM_ZERO, default=0)
    parser.add_argument('--cost', action='store_true', help='only what segmentation costs')
    options = parser.parse_args(given)
    plans = TorchConfig(
        model_path=find_model(options.model), device=options.device, threads=options.threads
    )
    if not options.cost:
        _serve(plans, options)
    cost = segmentation.measure(plans, ROUNDS, PLANS, PLANS)
    segmentation.show(cost)
    save(
        'llm_segmentation',
        {'model': options.model, 'device': options.device, **cost},
        [Target('overhead of segmentation (%)', cost['overhead_percent'], '<=', OVERHEAD)],
        path=options.json and Path(options.json).with_name('llm_segmentation.json'),
    )


def _serve(plans: TorchConfig, options: argparse.Namespace) -> None:
    """Serve plans and chats in every way, and save what came of it."""
    figures, served, fleets = asyncio.run(
        measure(plans, options.minutes, options.batches, options.seed, alone=12)
    )
    show(served, f'wid1 on {options.model}, times scaled by {figures["time_factor"]:.3f}')
    whole = {batch: fleet for (way, batch), fleet in fleets.items() if way == WAYS[0].name}
    same = [
        ids == whole[batch].token_ids.get(number)
        for (way, batch), fleet in fleets.items()
        if way != WAYS[0].name
        for number, ids in fleet.token_ids.items()
    ]
    chat = replace(plans, model_path=find_model(options.chat_model), sampling=SAMPLING)
    chats = asyncio.run(_chats(chat, options.batches, options.chats, options.seed))
    best = {way: min(rows, key=lambda it: it['response_s']) for way, rows in chats.items()}
    ratio = best['sentences']['response_s'] / best['whole answers']['response_s']
    found = [
        *targets([served]),
        Target('share of plans with the tokens of whole plans', statistics.fmean(same), '>=', 1.0),
        Target('chats: first response in sentences over whole answers', ratio, '<=', RESPONSE),
    ]
    ahead = best_of(served)
    save(
        'llm_serving',
        {
            'model': options.model,
            'device': options.device,
            'contention': figures,
            'best': {way: asdict(one) for way, one in ahead.items()},
            'plans_compared': len(same),
            'chats': chats,
        },
        found,
        path=options.json,
    )


async def _chats(
    engine: TorchConfig, batches: Sequence[int], count: int, seed: int
) -> dict[str, list[dict[str, Any]]]:
    """Serve chats each way at every batch; return what came of it, by way."""
    questions = [text for form, text in draw_questions(4 * count, seed) if form in OPEN_FORMS][
        :count
    ]
    ways = {one.name: one for one in WAYS}
    found: dict[str, list[dict[str, Any]]] = {told: [] for told in CHAT_WAYS}
    # All at once, whole, at each batch: as fast as the engine can.
    took_s = [
        max(
            await _ask(
                questions,
                [0.0] * len(questions),
                served_as(ways[CHAT_WAYS['whole answers']], engine, batch),
            )
        )
        for batch in batches
    ]
    gap_s = min(took_s) / len(questions) / CHAT_LOAD
    rng = random.Random(seed)
    at_s = list(itertools.accumulate(gap_s * rng.expovariate(1.0) for _ in questions))
    for batch in batches:
        for told, name in CHAT_WAYS.items():
            response_s = await _ask(questions, at_s, served_as(ways[name], engine, batch))
            found[told].append(
                {
                    'batch': batch,
                    'gap_s': gap_s,
                    'response_s': statistics.fmean(response_s),
                    'longest_s': max(response_s),
                }
            )
            print(f'chats in {told}, batch {batch}: first response {found[told][-1]}', flush=True)
    return found


async def _ask(questions: Sequence[str], at_s: Sequence[float], engine: TorchConfig) -> list[float]:
    """Return the time from each question to the first text that its reader could read (s)."""
    jobs = [
        Job(at, text, Scene(()), NORMAL, 'chat') for at, text in zip(at_s, questions, strict=True)
    ]
    fleet = Fleet(jobs, len(jobs), find_skill_set('chatbot'), engine, 0)
    await fleet.serve()
    return [fleet.results[number].response_s or 0.0 for number in range(len(jobs))]


if __name__ == '__main__':
    main()
