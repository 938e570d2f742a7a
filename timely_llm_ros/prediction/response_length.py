"""Arithmetic of bucketed response lengths: TimeBill's predictor without its network.

TimeBill (section 4.1, eq. 2) predicts in which bucket of ``size`` tokens a response's length
falls. Buckets are numbered from 1; bucket ``n`` holds the lengths ``(n - 1) size + 1`` to
``n size``. A class index of a framework is the number minus 1.
"""

from __future__ import annotations

import math

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
    """Return the length that a predicted bucket stands for (eq. 2): its upper edge, in tokens.

    So a perfect classifier still overestimates by ``(size - 1) / 2`` on average.

    Args:
        bucket: From 1.
        size: Lengths per bucket.
        max_tokens: The longest response that is allowed.

    Raises:
        ConfigurationError: One is less than 1.
    """
    for name, value in (('bucket', bucket), ('bucket size', size), ('max_tokens', max_tokens)):
        _positive(name, value)
    return min(max_tokens, bucket * size)


def mean_overestimate(size: int) -> float:
    """Return a perfect classifier's mean error (tokens) for lengths that fill a bucket evenly."""
    _positive('bucket size', size)
    return (size - 1) / 2


def pessimistic_length(length: int, pessimism: float, max_tokens: int) -> int:
    """Return N_W, the length of the worst case (section 4.2), in tokens.

    The paper does not round ``k`` times the length; rounded up it is a number of tokens.

    Args:
        length: Predicted length.
        pessimism: k >= 1.
        max_tokens: The longest response that is allowed.

    Raises:
        ConfigurationError: A value out of range.
    """
    _positive('length', length)
    _positive('max_tokens', max_tokens)
    if not (math.isfinite(pessimism) and pessimism >= 1):
        raise ConfigurationError(f'pessimism {pessimism!r}: expected a finite number >= 1')
    # Rounded first, because 1.1 * 10 is a little more than 11.
    return min(math.ceil(round(pessimism * length, 9)), max_tokens)
