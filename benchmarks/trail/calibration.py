"""How far the predicted distributions of lengths can be trusted, by the share of KV evicted.

    .venv/bin/python -m benchmarks.trail.calibration [--quick] [--plans 120]

Held-out plans of the embedded model, in small scenes (4 to 32 objects) and large ones (40 to 200),
each with several shares of its prompt evicted (SnapKV). The probe's distribution of the remaining
length is asked at every token: how often is a bin right that it gives a probability of p? And of
quantiles, the probe's and the response-length predictor's: how often do they hold? A policy ranks
by the mean; a budget takes a quantile, so that is what must hold.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from matplotlib.figure import Figure

from benchmarks.common import COUNT, FOLDER, Target, arguments, save
from benchmarks.trail.probe import (
    QUANTILES,
    coverage,
    follow,
    load_planner,
    long_requests,
    mean_errors,
    reliability,
)
from timely_llm_ros.training import draw_requests

SHARES = (0.0, 0.25, 0.5, 0.75, 0.95)
IMAGE = FOLDER.parents[1] / 'docs' / 'images' / 'calibration.png'


def measure(plans: int, shares: list[float]) -> dict[str, dict[str, Any]]:
    """Return what was found, by scenes and by the share evicted."""
    found: dict[str, dict[str, Any]] = {}
    for scenes in ('small scenes', 'large scenes'):
        found[scenes] = {}
        for share in shares:
            loaded = load_planner()
            if scenes == 'large scenes':
                requests = long_requests(loaded, plans, 21)
            else:
                requests = list(draw_requests(plans, 21, 'held_out'))
            rows = follow(loaded, requests, evicted=share)
            errors, held = mean_errors(rows), coverage(rows)
            found[scenes][f'{share:g}'] = {
                'plans': len(rows),
                'tokens': sum(row.length for row in rows),
                'mean_error_tokens': {name: errors[name] for name in ('refined', 'prompt only')},
                'reliability': reliability(rows),
                'coverage': held,
            }
            print(
                f'{scenes}, {share:.0%} evicted, {len(rows)} plans: error '
                f'{errors["refined"]:.2f} tokens (prompt only {errors["prompt only"]:.2f}); '
                f'95 % quantiles held: probe {held["probe"]["0.95"]:.1%}, prompt '
                f'{held["prompt"]["0.95"]:.1%}',
                flush=True,
            )
    return found


def draw(found: dict[str, dict[str, Any]]) -> None:
    """Draw reliability and coverage."""
    figure = Figure(figsize=(14, 3.6), layout='constrained')
    axes = figure.subplots(1, 4)
    for place, (scenes, rows) in enumerate(found.items()):
        one, two = axes[place], axes[2 + place]
        for axis in (one, two):
            axis.plot([0, 1], [0, 1], color='grey', linewidth=1)
            axis.grid(alpha=0.3)
        for number, (share, row) in enumerate(rows.items()):
            style = {'color': f'C{number}', 'marker': '.', 'lw': 1}
            label = f'{float(share):.0%} evicted'
            bins = row['reliability']
            one.plot([it['said'] for it in bins], [it['was'] for it in bins], label=label, **style)
            for source, dashes in (('probe', '-'), ('prompt', ':')):
                held = [row['coverage'][source][f'{q}'] for q in QUANTILES]
                two.plot(QUANTILES, held, ls=dashes, label=f'{source}, {label}', **style)
        one.set_title(f'{scenes}: bins of remaining length', fontsize=9)
        one.set_xlabel('probability that the probe gives')
        one.set_ylabel('how often right')
        two.set_title(f'{scenes}: quantiles', fontsize=9)
        two.set_xlabel('quantile')
        two.set_ylabel('how often it held')
        one.legend(fontsize=6)
        two.legend(fontsize=5)
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGE, dpi=100)
    print(IMAGE)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--quick', action='store_true', help='few plans, three shares')
    parser.add_argument(
        '--plans', type=COUNT, help='of each kind of scenes (default 120, quick 24)'
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    started_s = time.monotonic()
    plans = options.plans or (24 if options.quick else 120)
    found = measure(plans, list(SHARES[::2] if options.quick else SHARES))
    if not options.json:
        draw(found)
    targets = [
        Target(f'{scenes}, nothing evicted: the {source} 95 % quantile holds', held, '>=', 0.95)
        for scenes, rows in found.items()
        for source, held in (
            ("probe's", rows['0']['coverage']['probe']['0.95']),
            ("predictor's", rows['0']['coverage']['prompt']['0.95']),
        )
    ]
    figures = {'plans': plans, 'wall_s': time.monotonic() - started_s, **found}
    save('calibration', figures, targets, path=options.json)


if __name__ == '__main__':
    main()
