"""What distributions of lengths say: rows of the filter, forecasts of prompts, known lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from timely_llm_ros.prediction.lengths import LengthBins, LengthDistribution

    Floats = NDArray[np.float64]


def binned(bins: LengthBins, shares: Floats, ages: ArrayLike) -> Floats:
    """Return how probable each bin of what is left is, ``[rows, bins]``."""
    left = np.arange(1, shares.shape[1] + 1) - np.asarray(ages)[:, None]
    places = np.where(left > 0, bins.index(np.maximum(left, 0)), bins.count)
    return np.stack(
        [
            np.bincount(row, weights=of_row, minlength=bins.count + 1)[: bins.count]
            for row, of_row in zip(places, shares, strict=True)
        ]
    )


def left_at_most(shares: Floats, ages: ArrayLike, share: float) -> Floats:
    """Return how many tokens are left at most with a probability of ``share``, ``[rows]``."""
    below = (np.cumsum(shares, axis=1) < share * (1 - 1e-9)).sum(axis=1)
    left: Floats = np.minimum(below, shares.shape[1] - 1) + 1.0 - np.asarray(ages)
    return left


def middle(forecast: LengthDistribution) -> float:
    """Return the median of a predicted length (tokens), within its bucket as if all are alike."""
    below = 0.0
    for bucket, probability in enumerate(forecast.probabilities):
        if below + probability >= 0.5:
            return forecast.size * (bucket + (0.5 - below) / probability) + 0.5
        below += probability
    return forecast.size * len(forecast.probabilities)


def running(lengths: Floats, age: int) -> float:
    """Return the median of those lengths that are above an age; one token more without any."""
    longer = lengths[lengths > age]
    return float(np.median(longer)) if len(longer) else age + 1.0
