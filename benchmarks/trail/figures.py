"""What the TRAIL benchmark draws."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

IMAGE = Path(__file__).resolve().parents[2] / 'docs' / 'images' / 'trail.png'


def draw(figures: dict[str, Any], systems: Sequence[str]) -> None:
    """Draw latencies over loads, and how right the probe's certainty is."""
    figure = Figure(figsize=(13, 3.6), layout='constrained')
    axes = figure.subplots(1, 3)
    for one, value, name in (
        (axes[0], 'mean_s', 'mean latency (s)'),
        (axes[1], 'first_mean_s', 'mean time to the first token (s)'),
    ):
        for system in systems:
            points = [
                (run['load'], run[value])
                for run in figures['replay']['runs']
                if run['system'] == system and run['load']
            ]
            one.plot(*zip(*points, strict=True), marker='o', label=system)
        one.set_xlabel('arrivals per second / what the places can do')
        one.set_ylabel(name)
        one.set_yscale('log')
    for place, (name, row) in enumerate(figures['probe'].items()):
        errors = row['mean_error_tokens']
        axes[2].barh(
            [f'{what} ' for what in errors], list(errors.values()), height=0.28 * (3 - place),
            alpha=0.6, label=name,
        )  # fmt: skip
    axes[2].set_xlabel('mean error of the remaining length (tokens)')
    for one in axes:
        one.grid(alpha=0.3)
        one.legend(fontsize=8)
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGE, dpi=100)
    print(IMAGE)
