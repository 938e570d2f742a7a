"""A discrete-event simulation of the queue that ``queueing`` analyses, exact up to rounding."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class QueueRun:
    """What a simulated queue did.

    Attributes:
        responses: Response time of each job, ``[n]``.
        mean_memory: Time average of the summed ages of jobs begun and not ended.
        peak_memory: Their largest sum.
        preemptions: How often a job was preempted.
        end: When the last job ended.
    """

    responses: Floats
    mean_memory: float
    peak_memory: float
    preemptions: int
    end: float


def simulate_queue(
    arrivals: ArrayLike, sizes: ArrayLike, predicted: ArrayLike, share: float
) -> QueueRun:
    """Serve jobs by shortest predicted remaining first with limited preemption.

    The running job's rank falls while it runs and the others' stay, so only an arrival can preempt
    it, and only while its age is below ``c`` times its prediction. Equal ranks: first come first.

    Args:
        arrivals: Ascending times, ``[n]``.
        sizes: Above 0, ``[n]``.
        predicted: Predictions, ``[n]``.
        share: c, 0 to 1.

    Raises:
        ConfigurationError: Different lengths, no job, or the share is out of range.
    """
    times, works, lengths = (
        np.asarray(part, np.float64).tolist() for part in (arrivals, sizes, predicted)
    )
    count = len(times)
    if not count or len(works) != count or len(lengths) != count:
        raise ConfigurationError(
            f'{count} arrivals, {len(works)} sizes, {len(lengths)} predictions: expected as many'
        )
    if not 0 <= share <= 1:
        raise ConfigurationError(f'share {share!r}: expected 0 to 1')
    ended = [0.0] * count
    ages = [0.0] * count
    waiting: list[tuple[float, int]] = []
    now = idle_memory = area = peak = 0.0
    preemptions = 0
    running = -1
    next_job = 0
    while next_job < count or running >= 0:
        arrival = times[next_job] if next_job < count else np.inf
        if running < 0:
            now = arrival
        else:
            age = ages[running]
            left = works[running] - age
            ends = now + left <= arrival
            served = left if ends else arrival - now
            # Ages of waiting jobs stand still, the running one's grows.
            area += served * (idle_memory + age + served / 2)
            peak = max(peak, idle_memory + age + served)
            ages[running] = age + served
            now += served
            if ends:
                ended[running] = now
                running = -1
                if waiting:
                    running = heapq.heappop(waiting)[1]
                    idle_memory -= ages[running]
                    if not waiting:
                        idle_memory = 0.0
                continue
            now = arrival
        job, next_job = next_job, next_job + 1
        if running < 0:
            running = job
            continue
        age, length = ages[running], lengths[running]
        if age < share * length and lengths[job] < length - age:
            heapq.heappush(waiting, (length - age, running))
            idle_memory += age
            preemptions += 1
            running = job
        else:
            heapq.heappush(waiting, (lengths[job], job))
    responses = np.asarray(ended) - np.asarray(times)
    return QueueRun(responses, area / now if now else 0.0, peak, preemptions, now)
