"""What multi-bin batching gains: Multi-Bin Batching (arXiv 2412.04504), sections 3 to 5 and A.

A server takes batches of exactly B requests of one bin; a batch lasts as long as its longest
request (no continuous batching). Requests come as a Poisson process, and their times are uniform
on [shortest, longest] or exponential. Times are in seconds, rates per second.

Eq. 8, 10 and 11 are printed with the weights of the smallest and the largest swapped, and eq. 60
with an index that is off by one. Here are the right ones; ``docs/reference/batching.md`` says why.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.integrate import quad

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.scheduling import check_batch, check_bins, exponential_factor, harmonic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

# Uniform times (sections 4 and 5)


def uniform_boundaries(shortest: float, longest: float, bins: int) -> FloatArray:
    """Return the best boundaries for uniform lengths: equal widths (Multi-Bin, lemma 4.1).

    Raises:
        ConfigurationError: ``bins`` is below 1 or ``longest`` is not above ``shortest``.
    """
    check_bins(bins)
    if not -math.inf < shortest < longest < math.inf:
        raise ConfigurationError(
            f'lengths {shortest} to {longest}: expected finite ones, the second one larger'
        )
    return np.linspace(shortest, longest, bins + 1)


def expected_longest_s(shortest_s: float, longest_s: float, batch: int) -> float:
    """Return the mean of the largest of B uniform times (eq. 17; eq. 8 prints the smallest's)."""
    check_batch(batch)
    return (shortest_s + batch * longest_s) / (batch + 1)


def binned_service_s(boundaries: Sequence[float] | FloatArray, batch: int) -> float:
    """Return the mean time of a batch for uniform times (eq. 2 and 10, right weights).

    Args:
        boundaries: ``k + 1`` non-decreasing times from the shortest to the longest.
        batch: Requests per batch, B.
    """
    check_batch(batch)
    edges = np.asarray(boundaries, float)
    shares = np.diff(edges) / (edges[-1] - edges[0])
    return float(np.sum(shares * (edges[:-1] + batch * edges[1:])) / (batch + 1))


def service_hessian(shortest_s: float, longest_s: float, batch: int, bins: int) -> FloatArray:
    """Return the (k - 1, k - 1) Hessian of :func:`binned_service_s` (eq. 14).

    It does not depend on where the inner boundaries are. All its leading minors are positive
    (eq. 15 has the last one), so equal widths are the one minimum.
    """
    scale = (batch - 1) / ((batch + 1) * (longest_s - shortest_s))
    size = bins - 1
    hessian: FloatArray = scale * (2 * np.eye(size) - np.eye(size, k=1) - np.eye(size, k=-1))
    return hessian


def uniform_service_s(shortest_s: float, longest_s: float, batch: int, bins: int) -> float:
    """Return the mean time of a batch with k bins of equal width (proof of theorem 4.2)."""
    check_batch(batch)
    check_bins(bins)
    mean_s = (shortest_s + longest_s) / 2
    return mean_s + (expected_longest_s(shortest_s, longest_s, batch) - mean_s) / bins


def uniform_throughput(shortest_s: float, longest_s: float, batch: int, bins: int) -> float:
    """Return requests per second that one server can do with k bins (theorem 4.2)."""
    return batch / uniform_service_s(shortest_s, longest_s, batch, bins)


def uniform_capacity(shortest_s: float, longest_s: float, batch: int) -> float:
    """Return what no number of bins exceeds (eq. 5): B / mean time."""
    check_batch(batch)
    return batch / ((shortest_s + longest_s) / 2)


def carried_throughput(arrivals_per_s: float, capacity_per_s: float) -> float:
    """Return what is served in the long run (proposition 4.1)."""
    return min(arrivals_per_s, capacity_per_s)


def bins_for_gap(shortest_s: float, longest_s: float, batch: int, gap_per_s: float) -> int:
    """Return the least k whose throughput is within a gap of the capacity (theorem 4.3).

    Raises:
        ConfigurationError: The gap is not positive: no k reaches the capacity.
    """
    check_batch(batch)
    if not gap_per_s > 0:
        raise ConfigurationError(f'gap {gap_per_s}: expected a positive throughput')
    # Exact: the ceiling of a rounded quotient can be one too high or too low.
    low, high, gap = Fraction(shortest_s), Fraction(longest_s), Fraction(gap_per_s)
    mean = (low + high) / 2
    excess = (low + batch * high) / (batch + 1) - mean
    return max(1, math.ceil((batch / mean - gap) * excess / (gap * mean)))


def uniform_latency_s(
    shortest_s: float, longest_s: float, batch: int, bins: int, arrivals_per_s: float
) -> float:
    """Return the mean latency with infinitely many servers (lemma 5.1).

    That is service and the wait until the batch is full; with one server it is a lower bound.

    Raises:
        ConfigurationError: The arrival rate is not positive.
    """
    if not arrivals_per_s > 0:
        raise ConfigurationError(f'arrivals {arrivals_per_s}: expected a positive rate')
    forming_s = (batch - 1) * bins / (2 * arrivals_per_s)
    return uniform_service_s(shortest_s, longest_s, batch, bins) + forming_s


# Uniform times, bins that are predicted with errors (section 6.2)


def error_chance(accuracy: float, bins: int) -> float:
    """Return the chance p_e of each neighbouring bin that gives a predictor's accuracy.

    Raises:
        ConfigurationError: There is only one bin, or the accuracy is not a share.
    """
    if bins < 2:
        raise ConfigurationError(f'bins {bins}: expected at least 2, there are no errors with 1')
    if not 0 <= accuracy <= 1:
        raise ConfigurationError(f'accuracy {accuracy}: expected a share from 0 to 1')
    return (1 - accuracy) * bins / (2 * bins - 2)


def error_service_s(
    shortest_s: float, longest_s: float, batch: int, bins: int, error: float
) -> float:
    """Return the mean time of a batch where requests may be put into a neighbouring bin.

    A request of bin i goes to i - 1 and to i + 1 with the chance ``error`` each; from an outermost
    bin only inward. So each predicted bin still gets 1/k of the requests, and its members' times
    have a piecewise linear distribution function, whose power is integrated exactly.

    Raises:
        ConfigurationError: ``error`` is not between 0 and 0.5, or another number is out of range.
    """
    check_batch(batch)
    check_bins(bins)
    if not 0 <= error <= 0.5:
        raise ConfigurationError(f'error {error}: expected a chance from 0 to 0.5')
    width_s = (longest_s - shortest_s) / bins
    up = np.arange(batch + 1)
    total_s = 0.0
    for number in range(bins):
        sources = [i for i in (number - 1, number, number + 1) if 0 <= i < bins]
        total_s += shortest_s + (sources[-1] + 1) * width_s
        below = 0.0
        for source in sources:
            chance = error if source != number else 1 - error * (len(sources) - 1)
            above = below + chance
            # The mean of F^B over the segment, (a^(B+1) - b^(B+1)) / ((B+1) (a - b)), written as
            # a sum: the quotient has no digits left where the chance is tiny.
            total_s -= width_s * float(np.mean(above**up * below ** (batch - up)))
            below = above
    return total_s / bins


# Any times, by a sample


def sample_service(
    lengths: Sequence[float] | FloatArray, boundaries: Sequence[float] | FloatArray, batch: int
) -> float:
    """Return the mean time of a batch (eq. 2) whose members are drawn from a sample.

    A batch's members come from one bin, independently and with replacement; batches of a bin are
    as frequent as its requests are. Lengths beyond the ends count to the outermost bins.
    """
    check_batch(batch)
    ordered = np.sort(np.asarray(lengths, float))
    total = 0.0
    for inside in np.split(ordered, np.searchsorted(ordered, boundaries[1:-1])):
        below = np.linspace(0, 1, len(inside) + 1) ** batch
        total += len(inside) * float(np.diff(below) @ inside)
    return total / len(ordered)


# Exponential times (appendix A)


def exponential_service_bound_s(rate: float, batch: int, bins: int) -> float:
    """Return the least value of eq. 27, a bound of the mean batch time: L_k / mu.

    The closed form follows by putting the boundaries of lemma A.1 into eq. 27.
    """
    return exponential_factor(batch, bins) / rate


def exponential_throughput_bound(rate: float, batch: int, bins: int) -> float:
    """Return a lower bound of the throughput: B mu / L_k (corollary A.1.1, index put right)."""
    return batch / exponential_service_bound_s(rate, batch, bins)


def exponential_service_s(
    boundaries: Sequence[float] | FloatArray, rate: float, batch: int
) -> float:
    """Return the mean time of a batch for exponential times, to about 1e-12.

    Args:
        boundaries: ``k + 1`` increasing times; 0 first, infinity last.
        rate: One over the mean time, mu (1/s).
        batch: Requests per batch, B.
    """
    check_batch(batch)
    total_s = 0.0
    for low_s, high_s in pairwise(float(edge) for edge in boundaries):
        share = math.exp(-rate * low_s) - math.exp(-rate * high_s)
        if math.isinf(high_s):
            # Without memory: the rest of a time is exponential again.
            total_s += share * (low_s + harmonic(batch) / rate)
            continue
        width_s = high_s - low_s
        total_s += share * (high_s - width_s * _all_below(rate * width_s, batch))
    return total_s


def _all_below(width: float, batch: int) -> float:
    """Return the mean over a bin of the chance that all B times of its members are below.

    Args:
        width: The bin's, in mean times.
        batch: Requests per batch, B.
    """
    everything = math.expm1(-width)
    mean, _ = quad(lambda x: (math.expm1(-width * x) / everything) ** batch, 0, 1, epsabs=1e-13)
    return float(mean)
