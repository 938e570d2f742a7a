"""Where to cut lengths into bins so that a static batch waits least for its longest member.

A batch has B requests, and there are k bins. Boundaries are ``k + 1`` increasing numbers; bin ``i``
(from 0) holds lengths in ``[boundaries[i], boundaries[i + 1])``, the last one its upper end too. A
sample of lengths may have any order. Lengths may be tokens or seconds: what counts is that a batch
lasts as long as its longest member says.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from timely_llm_ros.scheduling.generation import FloatArray

CANDIDATES = 1024
"""The most places at which :func:`optimal_boundaries` considers a cut."""


def check_batch(batch: int) -> None:
    """Raise ConfigurationError where a batch holds nothing."""
    if batch < 1:
        raise ConfigurationError(f'batch {batch}: expected at least 1 request')


def check_bins(bins: int) -> None:
    """Raise ConfigurationError where there is no bin."""
    if bins < 1:
        raise ConfigurationError(f'bins {bins}: expected at least 1')


def harmonic(batch: int) -> float:
    """Return H_B, the mean of the largest of B exponential times of mean 1."""
    check_batch(batch)
    return math.fsum(1 / number for number in range(1, batch + 1))


def exponential_factor(batch: int, bins: int) -> float:
    """Return L_k: L_1 = H_B, L_k = 1 + log L_{k-1} (lemma A.1); it falls towards 1."""
    check_bins(bins)
    factor = harmonic(batch)
    for _ in range(bins - 1):
        factor = 1 + math.log(factor)
    return factor


def exponential_boundaries(rate: float, batch: int, bins: int) -> FloatArray:
    """Return the boundaries for exponential lengths (Multi-Bin, lemma A.1, eq. 28).

    They minimise the bound of eq. 27; the true optimum is within 0.02 % of them. The last one is
    infinite. ``rate`` is one over the mean length.

    Raises:
        ConfigurationError: ``rate`` is not positive, or ``batch`` or ``bins`` is below 1.
    """
    check_batch(batch)
    check_bins(bins)
    if not 0 < rate < math.inf:
        raise ConfigurationError(f'rate {rate}: expected a positive number')
    widths = [math.log(exponential_factor(batch, bins - i)) / rate for i in range(1, bins)]
    return np.concatenate(([0.0], np.cumsum(widths), [math.inf]))


def equal_mass_boundaries(lengths: Sequence[float] | FloatArray, bins: int) -> FloatArray:
    """Return boundaries between which a sample has, as nearly as it can, equally many lengths.

    This is what the paper's experiments use (section 6.1). It is optimal for uniform lengths only.

    Raises:
        ConfigurationError: The sample has fewer distinct lengths than there are bins.
    """
    values, counts = _distinct(lengths, bins)
    below = np.cumsum(counts)
    cuts: list[int] = []
    for number in range(1, bins):
        wanted = below[-1] * number / bins
        nearest = int(np.argmin(np.abs(below - wanted))) + 1
        least = cuts[-1] + 1 if cuts else 1
        cuts.append(min(max(nearest, least), len(values) - bins + number))
    return _between(values, cuts)


def optimal_boundaries(
    lengths: Sequence[float] | FloatArray,
    bins: int,
    batch: int,
    *,
    candidates: int = CANDIDATES,
) -> FloatArray:
    """Return the boundaries with the least mean batch time for the lengths of a sample.

    A batch's members are drawn from one bin, independently and with replacement. Dynamic
    programming over all places between two distinct lengths finds the exact minimum, for any
    distribution. Where the sample has more than ``candidates`` distinct lengths, it considers cuts
    at that many of its quantiles only; what a bin costs is still counted over the whole sample.

    Raises:
        ConfigurationError: The sample has fewer distinct lengths than there are bins, or a number
            is out of range.
    """
    check_batch(batch)
    if candidates < bins:
        raise ConfigurationError(f'candidates {candidates}: expected at least the {bins} bins')
    values, counts = _distinct(lengths, bins)
    below = np.concatenate(([0], np.cumsum(counts)))
    places = np.arange(len(values) + 1)
    if len(values) > candidates:
        wanted = np.linspace(0, below[-1], candidates + 1)
        places = np.unique(np.concatenate(([0], np.searchsorted(below, wanted), [len(values)])))
        if len(places) <= bins:
            # Few lengths have nearly all the mass: the quantiles fall together.
            places = np.unique(np.linspace(0, len(values), candidates + 1).astype(np.int64))
    costs = _costs(values, below, places, batch)
    best = costs[0]
    origins = []
    for _ in range(bins - 1):
        through = best[:, None] + costs
        origins.append(np.argmin(through, axis=0))
        best = np.min(through, axis=0)
    cuts = []
    place = len(places) - 1
    for origin in reversed(origins):
        place = int(origin[place])
        cuts.append(int(places[place]))
    return _between(values, cuts[::-1])


def _distinct(
    lengths: Sequence[float] | FloatArray, bins: int
) -> tuple[FloatArray, NDArray[np.int64]]:
    check_bins(bins)
    sample = np.asarray(lengths, float).ravel()
    if not np.isfinite(sample).all():
        wrong = sample[~np.isfinite(sample)][0]
        raise ConfigurationError(f'length {wrong}: expected a finite number')
    values, counts = np.unique(sample, return_counts=True)
    if len(values) < bins:
        raise ConfigurationError(
            f'{bins} bins: expected at most the {len(values)} distinct lengths of the sample'
        )
    return values, counts.astype(np.int64)


def _between(values: FloatArray, cuts: Sequence[int]) -> FloatArray:
    """Return boundaries that put ``values[cut]`` and all above it into the upper bin."""
    upper, lower = values[list(cuts)], values[[cut - 1 for cut in cuts]]
    middle = lower + (upper - lower) / 2
    # Between neighbouring floats there is nothing; the upper one belongs to the upper bin.
    middle = np.where(middle > lower, middle, upper)
    top = values[-1]
    if len(values) == 1:
        top = np.nextafter(values[0], math.inf)
    return np.concatenate(([values[0]], middle, [top]))


def _costs(
    values: FloatArray, below: NDArray[np.int64], places: NDArray[np.int64], batch: int
) -> FloatArray:
    """Return (n, n): share of a bin from one place to another, times its batches' mean time.

    The mean maximum of ``B`` draws from a bin follows from that of the bin without its largest
    length x: ``r E + (1 - r) x``, where r is the chance that no draw is x.
    """
    costs = np.full((len(places), len(places)), math.inf)
    starts = below[places]
    expected = np.zeros(len(places))
    inside = 0
    for number, value in enumerate(values):
        while inside < len(places) and places[inside] <= number:
            inside += 1
        sizes = below[number + 1] - starts[:inside]
        none = ((below[number] - starts[:inside]) / sizes) ** batch
        expected[:inside] = none * expected[:inside] + (1.0 - none) * value
        if inside < len(places) and places[inside] == number + 1:
            costs[:inside, inside] = expected[:inside] * sizes / below[-1]
    return costs
