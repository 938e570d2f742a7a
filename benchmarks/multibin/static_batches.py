"""Multi-bin batching under Poisson load, simulated: Multi-Bin Batching's figures 3, 4, 6, 8, 9.

The same rules as in ``timely_llm_ros.scheduling.multibin``, over whole arrays at once: a batch is
formed when a bin has B requests; those left over at the last arrival form partial ones; servers
take batches in the order in which they were formed and are busy for the longest member's time.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Batches:
    """All batches of a run, in the order in which they were formed; one element per batch.

    Attributes:
        formed_s: When the batch was formed.
        service_s: How long it takes.
        size: How many requests are in it.
        arrivals_s: The sum of its requests' arrival times.
    """

    formed_s: FloatArray
    service_s: FloatArray
    size: NDArray[np.int64]
    arrivals_s: FloatArray


def form_batches(
    arrival_s: FloatArray, service_s: FloatArray, bins: NDArray[np.int64], batch: int
) -> Batches:
    """Put requests into batches.

    Args:
        arrival_s: (n,) times of arrival, non-decreasing.
        service_s: (n,) how long each request takes by itself.
        bins: (n,) the bin that each was put into, 0-based.
        batch: Requests per batch, B.
    """
    order = np.argsort(bins, kind='stable')
    counts = np.bincount(bins)
    firsts = np.cumsum(counts) - counts
    starts = np.concatenate(
        [np.arange(first, first + n, batch) for first, n in zip(firsts, counts, strict=True)]
    )
    ends = np.append(starts[1:], len(order))
    size = ends - starts
    arrival_s, service_s = arrival_s[order], service_s[order]
    formed_s = np.where(size == batch, arrival_s[ends - 1], arrival_s.max())
    sequence = np.argsort(formed_s, kind='stable')
    return Batches(
        formed_s[sequence],
        np.maximum.reduceat(service_s, starts)[sequence],
        size[sequence],
        np.add.reduceat(arrival_s, starts)[sequence],
    )


def end_times_s(batches: Batches, servers: int | None = 1) -> FloatArray:
    """Return when each batch ends; ``servers`` is None for infinitely many."""
    if servers is None:
        return batches.formed_s + batches.service_s
    if servers == 1:
        # The server falls idle only to wait for a batch: the latest such wait decides.
        done_s = np.cumsum(batches.service_s)
        ends_s: FloatArray = done_s + np.maximum.accumulate(
            batches.formed_s - (done_s - batches.service_s)
        )
        return ends_s
    free_s = [0.0] * servers
    ends = []
    for formed, service in zip(batches.formed_s, batches.service_s, strict=True):
        end = max(formed, free_s[0]) + service
        heapq.heapreplace(free_s, end)
        ends.append(end)
    return np.array(ends)


@dataclass(frozen=True, slots=True)
class BatchRun:
    """What one run gave.

    Attributes:
        throughput_per_s: Requests over the time until the last one has ended.
        latency_s: Mean time from arrival to end.
    """

    throughput_per_s: float
    latency_s: float


def run_batches(batches: Batches, servers: int | None = 1) -> BatchRun:
    """Serve batches and return what came out."""
    ends_s = end_times_s(batches, servers)
    requests = int(batches.size.sum())
    latency_s = float(np.sum(batches.size * ends_s - batches.arrivals_s)) / requests
    return BatchRun(requests / float(ends_s.max()), latency_s)


def poisson_arrivals_s(rng: np.random.Generator, per_s: float, count: int) -> FloatArray:
    """Return (count,) times of arrival of a Poisson process."""
    return np.cumsum(rng.exponential(1 / per_s, count))


def bins_with_errors(
    rng: np.random.Generator, bins: NDArray[np.int64], count: int, error: float
) -> NDArray[np.int64]:
    """Return bins of which each is a neighbour with the chance ``error`` (section 6.2).

    Args:
        rng: Where chance comes from.
        bins: (n,) the right bins, 0-based.
        count: How many bins there are, k.
        error: Chance of each neighbour; an outermost bin has but one.
    """
    drawn = rng.random(len(bins))
    moved = bins + np.where(drawn < error, -1, np.where(drawn >= 1 - error, 1, 0))
    return np.where((moved < 0) | (moved >= count), bins, moved)
