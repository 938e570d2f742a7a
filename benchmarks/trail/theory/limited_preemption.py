"""TRAIL's rank: shortest predicted remaining first, preempted only while young (section 3.2).

A preempted job's KV stays in memory or is computed again, and the older the job is the more that
costs. So a job may be preempted only before it has had the share ``c`` of its first predicted
length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


def limited_preemption_rank(predicted: ArrayLike, age: ArrayLike, share: float) -> Floats:
    """Return ranks for shortest predicted remaining first with limited preemption; lowest runs.

    A job that has had ``c r`` of service ranks before all others and so cannot be preempted.
    ``share`` 1 is SPRPT; 0 is shortest predicted first without preemption. This is the rank of a
    *running* job, or one that has run; one that waits for its first service ranks by ``r``.

    Args:
        predicted: r, the first predicted length, ``[...]``.
        age: Service that it has had, in the same unit, ``[...]``.
        share: c, 0 to 1.

    Raises:
        ConfigurationError: The share is not between 0 and 1.
    """
    if not 0 <= share <= 1:
        raise ConfigurationError(f'share {share!r}: expected 0 to 1')
    length, served = np.asarray(predicted, np.float64), np.asarray(age, np.float64)
    ranks: Floats = np.where(served < np.round(share * length, 9), length - served, -np.inf)
    return ranks
