"""Makes a trained length predictor's probabilities hold on plans that it did not learn from.

A network that has learned its plans by heart is too sure of itself. So its scores are divided by a
temperature (Guo et al., 2017), and a share of the probability goes to the lengths of all plans, for
those that no prompt foretells. Among the pairs whose quantiles hold, the one is taken under which
held-out lengths are most probable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.lengths.rlp_network import softmax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.floating[Any]]

TEMPERATURES = tuple(np.geomspace(0.5, 8.0, 33).tolist())
PRIOR_SHARES = (0.001, 0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)
LEVELS = (0.8, 0.9, 0.95)
"""Quantiles that shall hold, as far as the held-out plans can tell."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What makes a predictor's probabilities hold.

    Attributes:
        temperature: Scores are divided by it.
        prior_share: What of the probability goes to the prior.
        prior: The share of all plans in each bucket.
    """

    temperature: float
    prior_share: float
    prior: tuple[float, ...]


def probabilities(scores: ArrayLike, temperature: float = 1.0) -> Floats:
    """Return the softmax of scores over a temperature, ``[..., classes]``."""
    return softmax(np.asarray(scores, np.float64) / temperature)


def bucket_prior(buckets: Sequence[int], count: int) -> tuple[float, ...]:
    """Return the share of plans in each of ``count`` buckets, each counted once more."""
    known = np.bincount(np.asarray(buckets) - 1, minlength=count) + 1.0
    return tuple((known / known.sum()).tolist())


def calibrate(scores: ArrayLike, buckets: Sequence[int], prior: Sequence[float]) -> Calibration:
    """Return the calibration under which held-out plans' lengths are most probable.

    Args:
        scores: The network's for each plan, ``[plans, classes]``.
        buckets: Each plan's bucket, from 1.
        prior: The share of all plans in each bucket, ``[classes]``.

    Raises:
        ConfigurationError: No plans, or shapes that do not fit.
    """
    given = np.asarray(scores, np.float64)
    places, shares = np.asarray(buckets) - 1, np.asarray(prior, np.float64)
    if given.ndim != 2 or not len(given) or given.shape != (len(places), len(shares)):
        raise ConfigurationError(
            f'scores {given.shape} for {len(places)} plans and {len(shares)} buckets: expected '
            'one row for each of at least one plan'
        )
    found: list[tuple[int, float, float, float]] = []
    for temperature in TEMPERATURES:
        sure = probabilities(given, temperature)
        for share in PRIOR_SHARES:
            mixed = (1 - share) * sure + share * shares
            own = np.take_along_axis(mixed, places[:, None], axis=1)[:, 0]
            # A quantile holds where less than it lies below the length's own bucket.
            below = mixed.cumsum(axis=1)[np.arange(len(places)), places] - own
            short = sum(not _holds(below, level) for level in LEVELS)
            found.append((short, -float(np.log(own).mean()), temperature, share))
    _, _, temperature, share = min(found)
    return Calibration(temperature, share, tuple(shares.tolist()))


def _holds(below: Floats, level: float) -> bool:
    """Return whether a quantile covers its level with one further plan to spare (conformal)."""
    covered = int((below < level).sum())
    return covered >= min(len(below), level * (len(below) + 1))
