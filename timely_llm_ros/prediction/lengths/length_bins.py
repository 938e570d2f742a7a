"""The bins of remaining length in which TRAIL's probe answers (TRAIL, section 3.1).

Arrays are ``[..., k]``: one row per generation, one column per bin.
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
        longest: The largest remaining length (tokens), which the last bin includes.

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

    def expected(self, posterior: ArrayLike) -> Floats:
        """Return L_t, the mean remaining length (tokens), ``[...]``, at least the first middle."""
        lengths: Floats = np.asarray(posterior, np.float64) @ self.midpoints
        return lengths
