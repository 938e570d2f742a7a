"""TRAIL's own smoothing of a probe's answers (section 3.1), which the filter over lengths replaces.

Each token moves probability mass down by one token, then the new answer is multiplied in. Two slips
of the paper are mended. What is carried from token to token is the smoothed answer, not the prior
alone, which would forget all evidence between. And mass moves *down*: in ``T @ q`` the matrix has
its entries above the diagonal; with the ones that appendix A prints below it, lengths would grow by
a token with every token.

Arrays are ``[..., k]``: one row per generation, one column per bin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from timely_llm_ros.prediction.lengths import LengthBins

    Floats = NDArray[np.float64]
    Singles = NDArray[np.float32]


def transition(bins: LengthBins, *, absorbing: bool = False) -> Floats:
    """Return ``T[i, j]``, the probability that a token takes bin ``j`` to ``i``.

    Args:
        bins: Of remaining length.
        absorbing: Keep in bin 0 what would leave it, instead of what has finished leaving.
    """
    moving = 1 / bins.width
    matrix = (1 - moving) * np.eye(bins.count) + moving * np.eye(bins.count, k=1)
    if absorbing:
        matrix[0, 0] = 1.0
    return matrix


def after_token(bins: LengthBins, posterior: ArrayLike, *, absorbing: bool = False) -> Floats:
    """Return the prior for the next token, ``[..., k]``.

    It sums to less than 1 by the probability that the generation has ended.
    """
    prior: Floats = np.asarray(posterior, np.float64) @ transition(bins, absorbing=absorbing).T
    return prior


def smooth(
    bins: LengthBins, posterior: ArrayLike, answer: ArrayLike, *, absorbing: bool = False
) -> Floats:
    """Return the smoothed answer after one more token, ``[..., k]``, each row summing to 1.

    The first answer is taken as it is: begin with ``posterior = answer``. The product treats the
    probe's softmax as a likelihood, as the paper does; answers of neighbouring tokens depend on
    each other, so the result is surer than it should be.

    Args:
        bins: Of remaining length.
        posterior: The smoothed answer up to the token before, ``[..., k]``.
        answer: The probe's probabilities at this token, ``[..., k]``.
        absorbing: See :func:`transition`; without it the result is conditioned on the generation
            still running.

    Raises:
        ConfigurationError: A shape other than ``[..., k]``, or an answer that is negative or zero
            everywhere.
    """
    likelihood = np.asarray(answer, np.float64)
    before = np.asarray(posterior, np.float64)
    if before.shape != likelihood.shape or likelihood.shape[-1:] != (bins.count,):
        raise ConfigurationError(
            f'an answer {likelihood.shape} after {before.shape}: expected rows of {bins.count} bins'
        )
    if not (likelihood >= 0).all() or not (likelihood.sum(axis=-1) > 0).all():
        raise ConfigurationError(f'answer {likelihood.tolist()}: expected probabilities')
    product = after_token(bins, before, absorbing=absorbing) * likelihood
    total = product.sum(axis=-1, keepdims=True)
    # Where they contradict each other in every bin, the newer one counts.
    product = np.where(total > 0, product, likelihood)
    smoothed: Floats = product / product.sum(axis=-1, keepdims=True)
    return smoothed


def smoothed(bins: LengthBins, answers: Singles) -> Floats:
    """Return TRAIL's smoothing of a plan's answers, ``[tokens, bins]``."""
    rows = [answers[0]]
    for answer in answers[1:]:
        rows.append(smooth(bins, rows[-1], answer))
    return np.stack(rows)
