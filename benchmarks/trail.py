"""TRAIL on the embedded model: how right the probe is, what it costs, and what it is good for.

    .venv/bin/python benchmarks/trail.py [--only probe overhead serving] [--json FILE]

Plans are of held-out scenes and wordings. Probe: mean errors of the remaining length over all
tokens of plans, against the prompt-only prediction less the tokens so far. Serving: whole plans on
the torch engine with few places, first come first served, shortest prompt-only prediction first,
TRAIL, and TRAIL with an oracle, at several loads and in a burst. Nothing of a plan reaches a robot
before its first segment, so that stands for the first token.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault('OMP_NUM_THREADS', '1')

import numpy as np
from _results import FOLDER, Target, save
from _trail_serving import PACE_S, SLOTS, SYSTEMS, Run, Served, System, arrivals, as_row, workload

from timely_llm_ros.engines.length_samples import draw_requests, generate_samples
from timely_llm_ros.engines.model_files import PREDICTORS, SHIPPED_MODEL, find_model
from timely_llm_ros.prediction.probe import EVERY, read_probe
from timely_llm_ros.prediction.probe_training import remaining_lengths
from timely_llm_ros.prediction.rlp import read_rlp

PARTS = ('probe', 'overhead', 'serving', 'ablation')
LOADS = (0.8, 1.0, 1.2)
"""Arrival rates as shares of what fcfs serves per second in the burst."""

SHARES = (0.0, 0.2, 0.5, 0.8, 1.0)
TIGHT_KV = 1000
"""A bound on KV (tokens) under which those preempted often have to be computed again."""

IMAGE = Path(__file__).resolve().parents[1] / 'docs' / 'images' / 'trail.png'


def probe_part(plans: int) -> tuple[dict[str, Any], list[Target]]:
    """How right the probe and the prompt-only predictor are, and how right their certainty is."""
    from timely_llm_ros.engines.torch_model import load_model

    folder = Path(find_model(SHIPPED_MODEL)) / PREDICTORS
    probe, rlp = read_probe(folder), read_rlp(folder)
    loaded = load_model(find_model(SHIPPED_MODEL), max_kv_tokens=32768)
    layer = probe.settings.layer
    samples = generate_samples(
        loaded, draw_requests(plans, 11, 'held_out'), layers=[layer], max_running=16
    )
    bins = probe.settings.bins
    errors: dict[str, list[Any]] = {}
    certain: list[Any] = []
    right: list[Any] = []
    covered: dict[float, list[Any]] = {share: [] for share in (0.5, 0.8, 0.9, 0.95, 0.99)}
    for sample in samples:
        left = remaining_lengths(sample.length)
        ages = np.arange(1, sample.length + 1)
        states = sample.states[:, 0].astype(np.float32)
        single, smoothed = probe.follow(states, EVERY)
        forecast = rlp.predict(sample.prompt.fixed, sample.prompt.body)
        coarse = bins.midpoints[int(bins.index(forecast.mean))]
        for name, found in (
            ('unrefined', bins.expected(single)),
            ('refined', bins.expected(smoothed)),
            ('refined at every token', bins.expected(probe.follow(states, 1)[1])),
            ('prompt only', np.maximum(forecast.mean - ages, 0)),
            ('prompt only, middle of its bin', np.maximum(coarse - ages, 0)),
        ):
            errors.setdefault(name, []).append(np.abs(found - left))
        certain.append(smoothed.ravel())
        right.append((np.arange(bins.count) == bins.index(left)[:, None]).ravel())
        for share, rows in covered.items():
            rows.append(left <= bins.quantile(smoothed, share))
    means = {name: float(np.concatenate(rows).mean()) for name, rows in errors.items()}
    certain, right = np.concatenate(certain), np.concatenate(right)
    edges = np.linspace(0, 1, 11)
    place = np.clip(np.digitize(certain, edges) - 1, 0, 9)
    reliability = [
        {
            'said': float(certain[place == it].mean()),
            'was': float(right[place == it].mean()),
            'answers': int((place == it).sum()),
        }
        for it in range(10)
        if (place == it).any()
    ]
    figures = {
        'plans': len(samples),
        'tokens': int(sum(sample.length for sample in samples)),
        'layer': layer,
        'layers_in_training': probe.about['layers'],
        'sharpness': probe.settings.sharpness,
        'divides': probe.settings.divides,
        'mean_error_tokens': means,
        'reliability': reliability,
        'coverage': {
            f'{share}': float(np.concatenate(rows).mean()) for share, rows in covered.items()
        },
    }
    print(f'{len(samples)} held-out plans, layer {layer}: mean error of the remaining length')
    for name, value in means.items():
        print(f'  {name:32} {value:6.2f} tokens')
    print('quantiles of the smoothed distribution, and how often they held:', figures['coverage'])
    ratio = means['prompt only'] / means['refined']
    return figures, [Target('prompt-only error / refined error', ratio, '>=', 2.66)]


def overhead_part(steps: int) -> tuple[dict[str, Any], list[Target]]:
    """What watching a layer and predicting from it adds to a decode step."""
    from timely_llm_ros.engines.core import EngineCore
    from timely_llm_ros.engines.torch_backend import TorchBackend
    from timely_llm_ros.engines.torch_lengths import StateReader
    from timely_llm_ros.engines.torch_model import load_model
    from timely_llm_ros.scheduling.options import SchedulingOptions

    probe = read_probe(Path(find_model(SHIPPED_MODEL)) / PREDICTORS)
    rows = {}
    for batch in (1, 8):
        loaded = load_model(find_model(SHIPPED_MODEL), max_kv_tokens=32768)
        reader = StateReader(loaded, probe)
        backend = TorchBackend(loaded)
        core = EngineCore(
            backend, policy='srpt', mode='stream', max_running=batch, max_kv_tokens=32768,
            scheduling=SchedulingOptions(admission='fixed', age_bound_s=None),
        )  # fmt: skip
        requests = draw_requests(10**6, 3, 'held_out', kinds=(10,))
        step_s: list[float] = []
        added_s: list[float] = []
        while len(step_s) < steps:
            while core.waiting + len(core.running) < batch:
                core.submit(next(requests), time.perf_counter())
            started_s = time.perf_counter()
            plan = core.plan(started_s)
            assert plan is not None
            outputs = backend.execute(plan)
            core.complete(plan, outputs, started_s, time.perf_counter())
            core.take_events()
            ended_s = time.perf_counter()
            left = reader.after_step(plan, backend)
            if left:
                core.refine(left)
            after_s = time.perf_counter()
            if plan.decodes_only and len(plan.rows) == batch:
                step_s.append(ended_s - started_s)
                added_s.append(after_s - ended_s)
        rows[batch] = {
            'step_ms': 1e3 * median(step_s),
            'answer_us': 1e6 * median(sorted(added_s)[-len(added_s) // EVERY :]),
            'share': float(np.sum(added_s) / np.sum(step_s)),
        }
        row = rows[batch]
        print(
            f'step of {batch}: {row["step_ms"]:.2f} ms, an answer {row["answer_us"]:.0f} us every '
            f'{EVERY} steps: {row["share"]:.2%} of the time'
        )
    worst = max(row['share'] for row in rows.values())
    figures = {'every': EVERY, 'batches': {f'{batch}': row for batch, row in rows.items()}}
    return figures, [Target('share of a decode step that predicting takes', worst, '<=', 0.01)]


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


async def ablation_part(count: int) -> tuple[dict[str, Any], list[Target]]:
    """What c does where those preempted may lose their KV: a burst."""
    requests = workload(count, 5)
    runs: list[Run] = []
    for share in SHARES:
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


def draw(figures: dict[str, Any]) -> None:
    """Draw latencies over loads, and how right the probe's certainty is."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 3.6), layout='constrained')
    axes = figure.subplots(1, 3)
    for one, value, name in (
        (axes[0], 'mean_s', 'mean latency (s)'),
        (axes[1], 'first_mean_s', 'mean time to the first segment (s)'),
    ):
        for system in SYSTEMS:
            points = [
                (run['load'], run[value])
                for run in figures['serving']['runs']
                if run['system'] == system.name and run['load']
            ]
            one.plot(*zip(*points, strict=True), marker='o', label=system.name)
        one.set_xlabel("arrivals per second / fcfs's capacity")
        one.set_ylabel(name)
    rows = figures['probe']['reliability']
    axes[2].plot([0, 1], [0, 1], color='grey', linewidth=1)
    axes[2].plot(
        [row['said'] for row in rows],
        [row['was'] for row in rows],
        marker='o',
        label='probe, smoothed',
    )
    axes[2].set_xlabel('probability that the probe gives a bin')
    axes[2].set_ylabel('how often that bin was right')
    for one in axes:
        one.grid(alpha=0.3)
        one.legend(fontsize=8)
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGE, dpi=100)
    print(IMAGE)


def main() -> None:
    import torch

    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument('--only', nargs='+', choices=PARTS, default=list(PARTS))
    parser.add_argument('--plans', type=int, default=300, help='for the probe (default 300)')
    parser.add_argument('--requests', type=int, default=60, help='per run (default 60)')
    parser.add_argument('--loads', type=float, nargs='+', default=list(LOADS))
    parser.add_argument('--steps', type=int, default=2000, help='for the overhead (default 2000)')
    parser.add_argument('--json')
    options = parser.parse_args()
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
            figures[part], found = probe_part(options.plans)
        elif part == 'overhead':
            figures[part], found = overhead_part(options.steps)
        elif part == 'serving':
            figures[part], found = asyncio.run(serving_part(options.requests, options.loads))
        else:
            figures[part], found = asyncio.run(ablation_part(options.requests))
        new = {one.name for one in found}
        targets = [one for one in targets if one.name not in new] + found
        save('trail', figures, targets, path=path)
    if {'probe', 'serving'} <= figures.keys():
        draw(figures)


def known(row: dict[str, Any]) -> Target:
    relation, bound = row['target'].split()
    return Target(row['name'], row['value'], relation, float(bound))


if __name__ == '__main__':
    main()
