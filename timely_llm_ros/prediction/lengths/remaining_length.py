"""TRAIL's arithmetic of remaining lengths: bins and Bayesian smoothing, without the probe.

A probe on a layer's embeddings says after every token with which probability the remaining length
is in each of ``k`` bins (TRAIL, section 3.1). Single answers are noisy, so they are smoothed: each
token moves probability mass down by one token, then the new answer is multiplied in.

Two slips of the paper are mended. What is carried from token to token is the smoothed answer, not
the prior alone, which would forget all evidence between. And mass moves *down*: in ``T @ q`` the
matrix has its entries above the diagonal; with the ones that appendix A prints below it, lengths
would grow by a token with every token.

Arrays are ``[..., k]``: one row per generation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LengthBins:
    """Equal bins of remaining length.

    Attributes:
        count: k, how many.
        longest: The largest remaining length (tokens); the last bin includes it.

    Raises:
        ConfigurationError: No bin, or bins narrower than a token.
    """

    count: int = 10
    longest: int = 512

    def __post_init__(self) -> None:
        if self.count < 1 or self.longest < self.count:
            raise ConfigurationError(
                f'{self.count!r} bins of 0 to {self.longest!r} tokens: expected at least one, and '
                'no more bins than tokens'
            )

    @property
    def width(self) -> float:
        """w, tokens per bin."""
        return self.longest / self.count

    @property
    def midpoints(self) -> Floats:
        """The length (tokens) that each bin stands for, ``[k]``."""
        return (2 * np.arange(self.count) + 1) * self.longest / (2 * self.count)

    def index(self, remaining_tokens: ArrayLike) -> NDArray[np.int64]:
        """Return the bins of remaining lengths, from 0; longer ones count as the longest.

        Raises:
            ConfigurationError: A length is negative.
        """
        tokens = np.asarray(remaining_tokens)
        if (tokens < 0).any():
            raise ConfigurationError(f'remaining length {tokens.min()}: expected at least 0')
        bins = np.floor_divide(tokens * self.count, self.longest).astype(np.int64)
        inside: NDArray[np.int64] = np.minimum(bins, self.count - 1)
        return inside

    def transition(self, *, absorbing: bool = False) -> Floats:
        """Return ``T[i, j]``, the probability that a token takes bin ``j`` to ``i``.

        :meth:`after_token` does the same without the matrix.

        Args:
            absorbing: Keep in bin 0 what would leave it, instead of what has finished leaving.
        """
        moving = 1 / self.width
        matrix = (1 - moving) * np.eye(self.count) + moving * np.eye(self.count, k=1)
        if absorbing:
            matrix[0, 0] = 1.0
        return matrix

    def after_token(self, posterior: ArrayLike, *, absorbing: bool = False) -> Floats:
        """Return the prior for the next token: ``T @ posterior``, ``[..., k]``.

        It sums to less than 1 by the probability that the generation has ended.
        """
        before = np.asarray(posterior, np.float64)
        moving = 1 / self.width
        prior = (1 - moving) * before
        prior[..., :-1] += moving * before[..., 1:]
        if absorbing:
            prior[..., 0] += moving * before[..., 0]
        return prior

    def smooth(self, posterior: ArrayLike, answer: ArrayLike, *, absorbing: bool = False) -> Floats:
        """Return the smoothed answer after one more token, ``[..., k]``, each row summing to 1.

        The first answer is taken as it is: begin with ``posterior = answer``. The product treats
        the probe's softmax as a likelihood, as the paper does; answers of neighbouring tokens
        depend on each other, so the result is surer than it should be.

        Args:
            posterior: The smoothed answer up to the token before, ``[..., k]``.
            answer: The probe's probabilities at this token, ``[..., k]``.
            absorbing: See :meth:`transition`; without it the result is conditioned on the
                generation still running.

        Raises:
            ConfigurationError: A shape other than ``[..., k]``, or an answer that is negative or
                zero everywhere.
        """
        likelihood = np.asarray(answer, np.float64)
        before = np.asarray(posterior, np.float64)
        if before.shape != likelihood.shape or likelihood.shape[-1:] != (self.count,):
            raise ConfigurationError(
                f'an answer {likelihood.shape} after {before.shape}: expected rows of '
                f'{self.count} bins'
            )
        if not (likelihood >= 0).all() or not (likelihood.sum(axis=-1) > 0).all():
            raise ConfigurationError(f'answer {likelihood.tolist()}: expected probabilities')
        product = self.after_token(before, absorbing=absorbing) * likelihood
        total = product.sum(axis=-1, keepdims=True)
        # Where they contradict each other in every bin, the newer one counts.
        product = np.where(total > 0, product, likelihood)
        smoothed: Floats = product / product.sum(axis=-1, keepdims=True)
        return smoothed

    def expected(self, posterior: ArrayLike) -> Floats:
        """Return L_t, the mean remaining length (tokens), ``[...]``.

        It is never below the first bin's middle, not even one token before the end.
        """
        lengths: Floats = np.asarray(posterior, np.float64) @ self.midpoints
        return lengths

    def quantile(self, posterior: ArrayLike, share: float) -> Floats:
        """Return the upper edge (tokens) of the bin up to which ``share`` of the mass lies.

        A worst case from the distribution itself, in place of a multiple of the mean.

        Raises:
            ConfigurationError: The share is not between 0 and 1.
        """
        if not 0 < share <= 1:
            raise ConfigurationError(f'share {share!r}: expected above 0, up to 1')
        cumulated = np.cumsum(np.asarray(posterior, np.float64), axis=-1)
        below = (cumulated < share * (1 - 1e-12)).sum(axis=-1)
        edges: Floats = (np.minimum(below, self.count - 1) + 1) * self.width
        return edges


def probe_parameters(embedding: int, hidden: int, bins: int) -> int:
    """Return how many parameters a probe of two linear layers has."""
    return embedding * hidden + hidden + hidden * bins + bins
