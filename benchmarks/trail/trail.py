"""TRAIL on the embedded model: how right the probe is, what it costs, and what it is good for.

    .venv/bin/python -m benchmarks.trail.trail [--quick] [--only probe overhead replay]
        [--json FILE]

Plans are of held-out scenes and wordings. Probe: mean errors of the remaining length over all
tokens of plans, against the prompt-only prediction less the tokens so far; also of open tasks
("tidy up") with drawn tokens, whose lengths prompts do not decide. Bound: how wrong there even the
best predictors are, because the planner may go on in many ways. Replay: plans drawn from a few
hundred, thousands of them in virtual time, first come first served, shortest prompt-only prediction
first, TRAIL, and an oracle, at several loads and in a burst; each with what was really predicted.
Serving: the same on the torch engine itself, fewer of them and in real time, with few places.
There the first segment stands for the first token: nothing of a plan reaches a robot before it.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common import COUNT, FOLDER, POSITIVE, Target, arguments, save
from benchmarks.trail.bound import bound_of, branch, show_bound, spoken_by
from benchmarks.trail.figures import draw
from benchmarks.trail.overhead import overhead_part
from benchmarks.trail.probe import (
    coverage,
    follow,
    load_planner,
    long_requests,
    mean_errors,
    predictors,
    reliability,
    spoken,
)
from benchmarks.trail.replay import PACE_S, Replayed, Way, draw_plans, serve
from benchmarks.trail.serving import (
    SLOTS,
    SYSTEMS,
    Run,
    Served,
    System,
    arrivals,
    as_row,
    workload,
)
from timely_llm_ros.engines.tokens import PREDICTORS, SHIPPED_MODEL, find_model
from timely_llm_ros.prediction.lengths import read_rlp
from timely_llm_ros.training import DRAWN, draw_open_requests, draw_requests

if TYPE_CHECKING:
    from collections.abc import Sequence

SMALL, LARGE, OPEN = SCENES = 'small scenes', 'large scenes', 'open tasks, drawn'
PREDICTORS_OPEN = f'{PREDICTORS}_open'
"""Those that learned from drawn plans of open tasks: ``timely-llm train-probe --tasks open``."""

PARTS = ('probe', 'bound', 'overhead', 'replay', 'replay_open', 'serving', 'ablation')
LOADS = (1.0, 1.2)
"""Arrival rates as shares of what fcfs serves per second in the burst."""

REPLAY_LOADS = (0.0, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2)
"""The same of what the slots can do on average; 0 for a burst."""

REPLAY_SLOTS = 4
REPLAYED: tuple[tuple[str, str, Way, float], ...] = (
    ('fcfs', 'fcfs', 'none', 0.0),
    ('sjf, prompt only', 'srpt', 'prompt', 0.0),
    ('trail', 'srpt', 'probe', 0.8),
    ('srpt, oracle', 'srpt', 'truth', 1.0),
)
BOUND_LOAD = 0.9
"""Where fcfs begins to queue."""

SHARES = (0.0, 0.2, 0.5, 0.8, 1.0)
TIGHT_KV = 1000
"""A bound on KV (tokens) under which those preempted often have to be computed again."""


def probe_part(plans: int) -> tuple[dict[str, Any], list[Target]]:
    """How right the probe and the prompt-only predictor are."""
    figures: dict[str, Any] = {}
    targets = []
    for name in SCENES:
        folder = PREDICTORS_OPEN if name == OPEN else PREDICTORS
        loaded, sampling = load_planner(), None
        if name == OPEN:
            requests = list(draw_open_requests(plans, 11, 'held_out'))
            sampling = DRAWN
        elif name == LARGE:
            requests = long_requests(loaded, plans // 3, 11)
        else:
            requests = list(draw_requests(plans, 11, 'held_out'))
        probe, _ = predictors(folder)
        found = follow(loaded, requests, sampling=sampling, name=folder)
        errors = mean_errors(found, folder)
        said = errors['prompt only'] / errors['refined']
        # Whichever reading of the prompt is best here, which is known only afterwards.
        best = min(it for what, it in errors.items() if what.startswith('prompt only'))
        ratio = best / errors['refined']
        # What only says which bin it is, without a prompt, can be no better than their middles.
        bound = best / errors['perfect bins']
        figures[name] = {
            'layer': probe.settings.layer,
            'layers_in_training': probe.about['layers'],
            'sharpness': probe.settings.sharpness,
            'divides': probe.settings.divides,
            'plans': len(found),
            'tokens': sum(len(plan.left) for plan in found),
            'mean_error_tokens': errors,
            'prompt_only_to_refined': said,
            'best_reading_to_refined': ratio,
            'prompt_only_to_perfect_bins': bound,
            'reliability': reliability(found, folder),
            'coverage': coverage(found),
        }
        print(f'{name}: {len(found)} held-out plans, mean error of the remaining length')
        for what, value in errors.items():
            print(f'  {what:32} {value:6.2f} tokens')
        print(f'  prompt only / refined {said:.2f}')
        print(f'  its best reading / refined {ratio:.2f}; with perfect bins it were {bound:.2f}')
        print('  quantiles, and how often they held:', figures[name]['coverage'])
        targets += [
            Target(f'{name}: prompt-only error / refined error', said, '>=', 2.66),
            Target(f"{name}: that of the prompt's best reading / refined", ratio, '>=', 2.66),
        ]
    return figures, targets


def bound_part(plans: int, times: int, count: int, seeds: int) -> dict[str, Any]:
    """What the best predictors of open tasks could reach, and what that were good for."""
    by = {it.generation_id: it for it in draw_open_requests(plans, 11, 'held_out')}
    followed = follow(load_planner(), by.values(), sampling=DRAWN, name=PREDICTORS_OPEN)
    branched = branch(
        load_planner(), [by[plan.name] for plan in followed], [it.length for it in followed],
        times=times, sampling=DRAWN,
    )  # fmt: skip
    bound = bound_of(followed, branched, PREDICTORS_OPEN)
    show_bound(bound)
    probe, _ = predictors(PREDICTORS_OPEN)
    ours = [spoken(plan, probe) for plan in followed]
    best = spoken_by(branched, followed)
    per_s = REPLAY_SLOTS / (fmean(plan.length for plan in ours) * PACE_S)
    means = {
        name: fmean(
            serve(*draw_plans(plans_, count, BOUND_LOAD * per_s, seed), policy=policy, way=way,
                  share=share, slots=REPLAY_SLOTS, step_s=PACE_S).mean_s
            for seed in range(seeds)
        )
        for name, plans_, (_, policy, way, share) in (
            *((way[0], ours, way) for way in REPLAYED),
            ('sjf, best from the prompt', best, REPLAYED[1]),
            ('trail, best from the state', best, REPLAYED[2]),
        )
    }  # fmt: skip
    worst, span = means['fcfs'], means['fcfs'] - means['srpt, oracle']
    gains = {name: (worst - mean_s) / span for name, mean_s in means.items()}
    print(f'load {BOUND_LOAD:g}, the same plans:')
    for name, mean_s in means.items():
        print(f"  {name:40} {mean_s:6.2f} s, {gains[name]:.1%} of the oracle's gain")
    return {
        **asdict(bound),
        'continuations_of_a_state': times,
        'replay': {'load': BOUND_LOAD, 'mean_s': means, 'gain': gains},
    }


def replay_part(
    part: str, known: int, count: int, seeds: int
) -> tuple[dict[str, Any], list[Target]]:
    """How long plans take by policy and load: many of them, in virtual time."""
    if part == 'replay_open':
        probe, _ = predictors(PREDICTORS_OPEN)
        requests = draw_open_requests(known, 5, 'held_out')
        plans = follow(load_planner(), requests, sampling=DRAWN, name=PREDICTORS_OPEN)
    else:
        probe, _ = predictors()
        plans = follow(load_planner(), workload(known, 5))
    known_plans = [spoken(plan, probe) for plan in plans]
    lengths = np.array([plan.length for plan in known_plans])
    per_s = REPLAY_SLOTS / (lengths.mean() * PACE_S)
    rows: list[dict[str, Any]] = []

    def run(name: str, policy: str, way: Way, share: float, load_: float) -> Replayed:
        found = [
            serve(*draw_plans(known_plans, count, load_ * per_s, seed), policy=policy, way=way,
                  share=share, slots=REPLAY_SLOTS, step_s=PACE_S)
            for seed in range(seeds)
        ]  # fmt: skip
        mean = Replayed.mean(found)
        rows.append({'system': name, 'share': share, 'load': load_, **asdict(mean)})
        return mean

    by = {
        (name, load_): run(name, policy, way, share, load_)
        for load_ in REPLAY_LOADS
        for name, policy, way, share in REPLAYED
    }
    ablation = {share: run(f'trail c={share:g}', 'srpt', 'probe', share, 1.0) for share in SHARES}
    print(f'{"load":>5}' + ''.join(f'{name:>22}' for name, *_ in REPLAYED) + '   (mean/first s)')
    for load_ in REPLAY_LOADS:
        cells = (by[name, load_] for name, *_ in REPLAYED)
        print(
            f'{load_:5.2f}' + ''.join(f'{it.mean_s:13.2f}/{it.first_mean_s:8.2f}' for it in cells)
        )
    print('c at load 1:', {c: f'{it.mean_s:.2f} s' for c, it in ablation.items()})
    # It queues where a plan waits longer for its first token than it is then being made.
    made_s = float(lengths.mean()) * PACE_S
    queues = [at for at in REPLAY_LOADS if at and by['fcfs', at].first_mean_s > made_s]
    at = min(queues, default=max(REPLAY_LOADS))
    fcfs, ours, best = (by[name, at] for name in ('fcfs', 'trail', 'srpt, oracle'))
    gain = (fcfs.mean_s - ours.mean_s) / (fcfs.mean_s - best.mean_s)
    figures = {
        'plans_known': len(known_plans),
        'plans': count,
        'seeds': seeds,
        'mean_tokens': float(lengths.mean()),
        'variation': float(lengths.std() / lengths.mean()),
        'slots': REPLAY_SLOTS,
        'binding_limit': f'{REPLAY_SLOTS} places',
        'step_s': PACE_S,
        'fcfs_queues_from_load': at,
        'oracle_mean_ratio': fcfs.mean_s / best.mean_s,
        'oracle_first_ratio': fcfs.first_mean_s / best.first_mean_s,
        'runs': rows,
    }
    print(
        f'at load {at:g}: fcfs / trail {fcfs.mean_s / ours.mean_s:.2f} in the mean (oracle '
        f'{figures["oracle_mean_ratio"]:.2f}), {fcfs.first_mean_s / ours.first_mean_s:.2f} to the '
        f'first token (oracle {figures["oracle_first_ratio"]:.2f})'
    )
    return figures, [
        Target(f'{part}, where fcfs queues: mean latency, fcfs / trail',
               fcfs.mean_s / ours.mean_s, '>=', 2.0),
        Target(f'{part}, where fcfs queues: mean time to the first token, fcfs / trail',
               fcfs.first_mean_s / ours.first_mean_s, '>=', 5.0),
        Target(f"{part}, where fcfs queues: share of the oracle's gain", gain, '>=', 0.9),
    ]  # fmt: skip


async def serving_part(count: int, loads: list[float]) -> tuple[dict[str, Any], list[Target]]:
    """How long plans take by policy and load."""
    rlp = read_rlp(Path(find_model(SHIPPED_MODEL)) / PREDICTORS)
    requests = workload(count, 5)
    predicted = {
        'prompt': {
            it.generation_id: rlp.predict(it.prompt.fixed, it.prompt.body).mean for it in requests
        }
    }
    runs: list[Run] = []
    per_s = 0.0
    for system in SYSTEMS:
        served = Served(system, kv_tokens=32768)
        await served.start()
        # Everything at once also says how many plans per second there can be.
        await served.run(requests[:4], arrivals(4, 0.0, 1), predicted | {'truth': {}}, 0.0)
        if 'truth' not in predicted:
            runs.append(await served.run(requests, arrivals(count, 0.0, 1), predicted, 0.0))
            per_s = runs[-1].per_s
            predicted['truth'] = {name: float(n) for name, n in served.tokens.items()}
        else:
            runs.append(await served.run(requests, arrivals(count, 0.0, 1), predicted, 0.0))
        for load in loads:
            times_s = arrivals(count, load * per_s, 2)
            runs.append(await served.run(requests, times_s, predicted, load))
        await served.close()
        show([run for run in runs if run.system == system.name])
    figures = {
        'slots': SLOTS,
        'pace_s': PACE_S,
        'binding_limit': f'{SLOTS} places',
        'plans': count,
        'capacity_per_s': round(per_s, 2),
        'mean_tokens': round(float(np.mean(list(predicted['truth'].values()))), 2),
        'runs': [as_row(run) for run in runs],
    }
    by = {(run.system, run.load): run for run in runs}
    fcfs, ours, oracle = (by[name, 1.0] for name in ('fcfs', 'trail', 'srpt, oracle'))
    gain = (fcfs.mean_s - ours.mean_s) / (fcfs.mean_s - oracle.mean_s)
    return figures, [
        Target('load 1.0: mean latency, fcfs / trail', fcfs.mean_s / ours.mean_s, '>=', 2.0),
        Target(
            'load 1.0: mean time to the first segment, fcfs / trail',
            fcfs.first_mean_s / ours.first_mean_s,
            '>=',
            5.0,
        ),
        Target("load 1.0: share of the oracle's gain in mean latency", gain, '>=', 0.9),
    ]


async def ablation_part(count: int, shares: Sequence[float]) -> tuple[dict[str, Any], list[Target]]:
    """What c does where those preempted may lose their KV: a burst."""
    requests = workload(count, 5)
    runs: list[Run] = []
    for share in shares:
        served = Served(
            System(f'trail c={share:g}', share=share, predictors='auto'),
            kv_tokens=TIGHT_KV,
            slots=2 * SLOTS,
        )
        await served.start()
        await served.run(requests[:4], arrivals(4, 0.0, 1), {}, 0.0)
        runs.append(await served.run(requests, arrivals(count, 8.0, 2), {}, 0.0))
        await served.close()
    show(runs)
    limit = f'{2 * SLOTS} places and {TIGHT_KV} tokens of KV'
    return {'binding_limit': limit, 'runs': [as_row(run) for run in runs]}, []


def show(runs: list[Run]) -> None:
    for run in runs:
        load = f'load {run.load:.1f}' if run.load else 'burst   '
        print(
            f'{run.system:18} {load}  mean {run.mean_s:7.3f} s, median {run.median_s:7.3f} s; '
            f'first {run.first_mean_s:7.3f} s, median {run.first_median_s:7.3f} s; '
            f'{run.per_s:5.1f}/s, {run.spilled} recomputed'
        )


def main() -> None:
    import torch

    torch.set_num_threads(1)
    parser = arguments(__doc__)
    parser.add_argument('--quick', action='store_true', help='a rough picture in two minutes')
    parser.add_argument('--only', nargs='+', choices=PARTS, default=list(PARTS))
    parser.add_argument('--plans', type=COUNT, help='for the probe (default 300, quick 60)')
    parser.add_argument('--requests', type=COUNT, help='per run (default 60, quick 16)')
    parser.add_argument('--loads', type=POSITIVE, nargs='+', help='(default 1 1.2, quick 1)')
    parser.add_argument('--rounds', type=COUNT, help='for the overhead (default 300, quick 40)')
    options = parser.parse_args()
    quick = options.quick
    plans = options.plans or (60 if quick else 300)
    requests = options.requests or (16 if quick else 60)
    path = Path(options.json) if options.json else FOLDER / 'trail.json'
    figures: dict[str, Any] = {}
    targets: list[Target] = []
    if path.is_file() and set(options.only) != set(PARTS):
        # Parts that are measured one by one add up to one file.
        before = json.loads(path.read_text(encoding='utf-8'))
        figures = before['figures']
        targets = [known(row) for row in before['targets']]
    for part in options.only:
        if part == 'probe':
            figures[part], found = probe_part(plans)
        elif part == 'bound':
            few, times, many, seeds = (6, 8, 300, 1) if quick else (24, 16, 1000, 3)
            figures[part], found = bound_part(few, times, many, seeds), []
        elif part == 'overhead':
            figures[part], found = overhead_part(options.rounds or (40 if quick else 300))
        elif part in ('replay', 'replay_open'):
            many, seeds = (300, 1) if quick else (1000, 3)
            figures[part], found = replay_part(part, plans, many, seeds)
        elif part == 'serving':
            loads = options.loads or ([1.0] if quick else list(LOADS))
            figures[part], found = asyncio.run(serving_part(requests, loads))
        else:
            shares = SHARES[1::2] if quick else SHARES
            figures[part], found = asyncio.run(ablation_part(requests, shares))
        new = {one.name for one in found}
        targets = [one for one in targets if one.name not in new] + found
        save('trail', figures, targets, path=path)
    if {'probe', 'replay'} <= figures.keys() and not options.json:
        draw(figures, [name for name, *_ in REPLAYED])


def known(row: dict[str, Any]) -> Target:
    relation, bound = row['target'].split()
    return Target(row['name'], row['value'], relation, float(bound))


if __name__ == '__main__':
    main()
