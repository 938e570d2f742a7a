"""What the vLLM benchmark draws: each way's urgent response and utility, per fleet and load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from pathlib import Path

WAYS = ('stock fcfs', 'stock priority', 'stock streaming', 'outside', 'ours')
COLORS = {'ours': 'tab:green'}


def draw(ways_of: dict[tuple[int, float], dict[str, dict[str, Any]]], path: Path) -> None:
    """Draw the ways at their best largest batch, a row per fleet and load.

    Args:
        ways_of: By number of robots and load, and by way: its figures.
        path: The picture.
    """
    figure = Figure(figsize=(9, 2.0 * len(ways_of)), layout='constrained')
    rows = figure.subplots(len(ways_of), 2, squeeze=False)
    for (left, right), ((robots, load), ways) in zip(rows, sorted(ways_of.items()), strict=True):
        names = [name for name in WAYS if name in ways]
        places = range(len(names))
        colors = [COLORS.get(name, 'tab:gray') for name in names]
        left.barh(places, [ways[name]['urgent_p99_ms'] for name in names], color=colors, alpha=0.5)
        left.barh(places, [ways[name]['urgent_p50_ms'] for name in names], color=colors)
        left.set_xlabel('urgent response, p50 and p99 (ms)')
        left.set_ylabel(f'{robots} robots,\nload {load:g}')
        right.barh(places, [ways[name]['utility'] for name in names], color=colors)
        right.set_xlabel('mean utility')
        for axes, labels in ((left, names), (right, [''] * len(names))):
            axes.set_yticks(places, labels)
            axes.invert_yaxis()
            axes.grid(axis='x', alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
