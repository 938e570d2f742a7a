"""Ways of serving the same requests, measured in turns, so that all meet the same machine.

Each way is a row of pieces, a static batch each or so many requests of a continuous run. Pieces of
all ways are computed in one order, spread evenly over the whole measurement; what a busy moment of
the machine costs, it costs all of them alike.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

BLOCKS = 12
"""Stretches of the measurement that are drawn anew for the standard errors."""

RESAMPLES = 2000


@dataclass(slots=True)
class Way:
    """One way of serving.

    Attributes:
        name: What it is called.
        pieces: Each computes a part of the requests and returns its steps.
        took_s: What each has taken (s).
        steps: How many steps each has made.
        block: In which stretch of the measurement each was.
    """

    name: str
    pieces: Sequence[Callable[[], int]]
    took_s: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    block: list[int] = field(default_factory=list)

    @property
    def total_s(self) -> float:
        """Time of all its pieces together (s)."""
        return sum(self.took_s)

    def resampled_s(self, drawn: NDArray[np.int64]) -> FloatArray:
        """Return what all of it takes at the speeds of the drawn stretches (s).

        A way's pieces are not alike, so it is their time per step that is drawn.

        Args:
            drawn: (n, blocks) stretches.
        """
        seconds = np.bincount(self.block, self.took_s, BLOCKS)
        steps = np.bincount(self.block, self.steps, BLOCKS)
        total: FloatArray = seconds[drawn].sum(axis=1) / steps[drawn].sum(axis=1) * sum(self.steps)
        return total


def run_in_turns(ways: Sequence[Way], advance: Callable[[], object]) -> None:
    """Compute all pieces of all ways, spread evenly; ``advance`` is called after each."""
    order = sorted(
        ((number + 0.5) / len(way.pieces), place, number)
        for place, way in enumerate(ways)
        for number in range(len(way.pieces))
    )
    for at, place, number in order:
        way = ways[place]
        started_s = time.perf_counter()
        way.steps.append(way.pieces[number]())
        way.took_s.append(time.perf_counter() - started_s)
        way.block.append(int(at * BLOCKS))
        advance()


def gain(way: Way, base: Way) -> float:
    """Return by how much more requests per second a way serves than another."""
    return base.total_s / way.total_s - 1.0


def gain_errors(ways: Iterable[Way], base: Way, seed: int = 0) -> dict[str, float]:
    """Return the standard errors of :func:`gain`, by drawing stretches anew."""
    drawn = np.random.default_rng(seed).integers(0, BLOCKS, (RESAMPLES, BLOCKS))
    below = base.resampled_s(drawn)
    return {way.name: float(np.std(below / way.resampled_s(drawn))) for way in ways}


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of a mean; 0 of a single value."""
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
