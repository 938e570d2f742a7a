"""The arithmetic of TimeBill's response lengths in buckets (section 4.1, eq. 2).

TimeBill predicts in which bucket of ``size`` tokens a response's length falls. Bucket ``n``, from
1, holds the lengths ``(n - 1) size + 1`` to ``n size``; a network's class is the number minus 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from timely_llm_ros.errors import ConfigurationError


def _positive(name: str, value: int) -> None:
    if value < 1:
        raise ConfigurationError(f'{name} {value!r}: expected at least 1')


def bucket_count(longest: int, size: int) -> int:
    """Return how many buckets hold the lengths 1 to ``longest``.

    Raises:
        ConfigurationError: One is less than 1.
    """
    _positive('longest length', longest)
    _positive('bucket size', size)
    return -(-longest // size)


def bucket_of(length: int, size: int, longest: int | None = None) -> int:
    """Return the bucket of a length, from 1; lengths beyond ``longest`` count as the longest.

    Raises:
        ConfigurationError: One is less than 1; prefill always makes one token.
    """
    _positive('length', length)
    _positive('bucket size', size)
    return -(-length // size) if longest is None else bucket_count(min(length, longest), size)


def predicted_length(bucket: int, size: int, max_tokens: int) -> int:
    """Return the length (tokens) that a predicted bucket stands for (eq. 2): its upper edge.

    So a perfect classifier still overestimates by ``(size - 1) / 2`` on average. No response is
    longer than ``max_tokens``.

    Raises:
        ConfigurationError: One is less than 1.
    """
    for name, value in (('bucket', bucket), ('bucket size', size), ('max_tokens', max_tokens)):
        _positive(name, value)
    return min(max_tokens, bucket * size)


def pessimistic_length(length: int, pessimism: float, max_tokens: int) -> int:
    """Return N_W, the worst case's length (section 4.2): k = ``pessimism`` times the predicted one.

    The paper does not round it; rounded up it is a number of tokens.

    Raises:
        ConfigurationError: A value out of range.
    """
    _positive('length', length)
    _positive('max_tokens', max_tokens)
    if not (math.isfinite(pessimism) and pessimism >= 1):
        raise ConfigurationError(f'pessimism {pessimism!r}: expected a finite number >= 1')
    # Rounded first, because 1.1 * 10 is a little more than 11.
    return min(math.ceil(round(pessimism * length, 9)), max_tokens)


@dataclass(frozen=True, slots=True)
class LengthDistribution:
    """How long a response will be: a probability for every bucket.

    A policy ranks by the mean; a budget that must hold takes a quantile.

    Attributes:
        probabilities: Of buckets 1, 2, ...
        size: Lengths per bucket.

    Raises:
        ConfigurationError: They are no probabilities, or a bucket holds no length.
    """

    probabilities: tuple[float, ...]
    size: int

    def __post_init__(self) -> None:
        _positive('bucket size', self.size)
        total = sum(self.probabilities)
        if not (min(self.probabilities, default=-1.0) >= 0 and abs(total - 1) < 1e-6):
            raise ConfigurationError(
                f'probabilities {self.probabilities!r}: expected numbers >= 0 that sum to 1'
            )

    @property
    def bucket(self) -> int:
        """The most probable bucket, from 1."""
        return self.probabilities.index(max(self.probabilities)) + 1

    @property
    def mean(self) -> float:
        """Expected length (tokens), each bucket standing for the middle of its lengths."""
        middle = (self.size + 1) / 2
        return sum(p * (n * self.size + middle) for n, p in enumerate(self.probabilities))

    def predicted(self, max_tokens: int) -> int:
        """Return TimeBill's prediction (eq. 2): the upper edge of the most probable bucket."""
        return predicted_length(self.bucket, self.size, max_tokens)

    def quantile(self, share: float) -> int:
        """Return the upper edge of the bucket up to which at least ``share`` of responses end.

        Raises:
            ConfigurationError: The share is not above 0 and up to 1.
        """
        if not 0 < share <= 1:
            raise ConfigurationError(f'share {share!r}: expected above 0, up to 1')
        below = 0.0
        for bucket, probability in enumerate(self.probabilities, 1):
            below += probability
            if below >= share * (1 - 1e-9):
                return bucket * self.size
        return len(self.probabilities) * self.size
