"""Mean response time of shortest predicted remaining first with limited preemption.

TRAIL's lemma 1 (section 3.3, appendix C): Poisson arrivals, one server, and a job may be preempted
only while its age is below ``c`` times its prediction. Three slips of the printed lemma are
mended, and a discrete-event simulation (``queue_simulation``) agrees with the result:

* A job of a longer prediction ``t`` outranks the tagged one again at age ``min(t - r, c t)``: its
  own limit, not the tagged job's, and for all ``t > r``.
* The time in which a job may be preempted ends at its own size where that is below ``c r``.
* Jobs are averaged with the joint density of size and prediction.

As printed, response times are up to a quarter too low and lowest for small ``c``; in truth they
fall as ``c`` grows, and what a small ``c`` saves is memory. Time is in units of the mean size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.trail.theory.quadrature import running_integral
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from benchmarks.trail.theory.job_models import JobModel

    Floats = NDArray[np.float64]

_LONGEST = 2100.0
"""Longest prediction that the quadratures ask for."""


class LimitedPreemption:
    """One queue.

    Args:
        arrival_rate: Jobs per mean job size, between 0 and 1; it is the load.
        share: c, 0 (never preempted) to 1 (shortest predicted remaining processing time first).
        job_model: Sizes and predictions.

    Raises:
        ConfigurationError: The rate or the share is out of range.
    """

    def __init__(self, arrival_rate: float, share: float, job_model: JobModel) -> None:
        if not 0 < arrival_rate < 1:
            raise ConfigurationError(
                f'arrival rate {arrival_rate!r}: expected between 0 and 1, else the queue grows'
            )
        if not 0 <= share <= 1:
            raise ConfigurationError(f'share {share!r}: expected 0 to 1')
        self._rate, self._share, self._jobs = arrival_rate, share, job_model
        self._stretched = running_integral(self._stretch, _LONGEST)

    def _stretch(self, predicted: Floats) -> Floats:
        return 1 / (1 - self.load_below(predicted))

    def load_below(self, predicted: ArrayLike) -> Floats:
        """Return rho_r, the load of jobs whose prediction is at most ``r``, same shape."""
        return self._rate * self._jobs.load_below(predicted)

    def waiting(self, predicted: ArrayLike) -> Floats:
        """Return the mean time until a job of prediction ``r`` is served first, same shape."""
        square = self._jobs.square_below(predicted) + self._jobs.recycled_square(
            predicted, self._share
        )
        return self._rate * square * self._stretch(np.asarray(predicted, np.float64)) ** 2 / 2

    def residence(self, size: ArrayLike, predicted: ArrayLike) -> Floats:
        """Return the mean time from a job's first service to its end, same shape.

        While it may be preempted each bit of its work is stretched by the jobs that outrank it.
        """
        x, r = np.asarray(size, np.float64), np.asarray(predicted, np.float64)
        preemptable = np.minimum(x, self._share * r)
        stretched = self._stretched(r) - self._stretched(r - preemptable)
        return stretched + x - preemptable

    def response(self, size: ArrayLike, predicted: ArrayLike) -> Floats:
        """Return lemma 1: the mean response time of jobs of that size and prediction."""
        return self.waiting(predicted) + self.residence(size, predicted)

    def mean_response(self) -> float:
        """Return the mean response time over all jobs."""
        r, r_weights = self._jobs.predictions()
        x, predicted, weights = self._jobs.jobs(self._share)
        waiting = float(r_weights @ self.waiting(r))
        return waiting + float(weights @ self.residence(x, predicted))

    def mean_memory(self) -> float:
        """Return the time average of the summed ages of all jobs begun and not ended.

        A token's KV is held from when it is computed to the job's end, so ages are memory. By
        Little's law it is the rate times what a job of a mean holds over its residence.
        """
        x, r, weights = self._jobs.jobs(self._share)
        preemptable = np.minimum(x, self._share * r)
        # Age a is held while the server works off what ranks below r - a; with b = r - a.
        from_b = r - preemptable
        stretched = self._stretched(r) - self._stretched(from_b)
        aged = running_integral(lambda b: b * self._stretch(b), _LONGEST)
        held = r * stretched - (aged(r) - aged(from_b))
        return self._rate * float(weights @ (held + (x * x - preemptable * preemptable) / 2))


def fcfs_mean_response(arrival_rate: float) -> float:
    """Return the mean response time of first come first served, exponential sizes of mean 1.

    Raises:
        ConfigurationError: The rate is not between 0 and 1.
    """
    if not 0 < arrival_rate < 1:
        raise ConfigurationError(f'arrival rate {arrival_rate!r}: expected between 0 and 1')
    return 1 / (1 - arrival_rate)


def mean_unpreemptable(share: float) -> float:
    """Return E[(x - c r)^+] for exponential sizes and :class:`ExponentialPredictor`.

    The printed lemma has E[x - c r] = 1 - c, as if every job reached its limit.
    """
    return 1 - share * (1 - float(np.exp(-1 / share))) if share else 1.0
