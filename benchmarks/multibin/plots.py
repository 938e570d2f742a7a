"""What the multi-bin benchmark draws: a line per number of bins."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from benchmarks.multibin.static_batches import BatchRun


@dataclass(frozen=True, slots=True)
class Mean:
    """Means over draws."""

    throughput_per_s: float
    latency_s: float

    @classmethod
    def of(cls, runs: Sequence[BatchRun]) -> Mean:
        return cls(fmean(r.throughput_per_s for r in runs), fmean(r.latency_s for r in runs))


Grid = dict[tuple[float, int], Mean]
"""By what is on the x axis and the number of bins."""


def lines(axes: Axes, grid: Grid, value: str, bins: Sequence[int], **style: Any) -> None:
    for number, count in enumerate(bins):
        points = sorted((per_s, getattr(m, value)) for (per_s, k), m in grid.items() if k == count)
        label = f'k = {count}' if 'label' not in style else None
        axes.plot(*zip(*points, strict=True), color=f'C{number}', **{'label': label} | style)
