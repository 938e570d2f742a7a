from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.lengths.response_length import (
    bucket_count,
    bucket_of,
    pessimistic_length,
    predicted_length,
)

sizes = st.integers(1, 64)
lengths = st.integers(1, 8192)


@given(lengths, sizes)
def test_a_bucket_holds_its_length(length: int, size: int) -> None:
    bucket = bucket_of(length, size)
    assert (bucket - 1) * size < length <= bucket * size
    assert 0 <= predicted_length(bucket, size, 10**6) - length < size


@given(lengths, sizes)
def test_longer_than_the_longest_is_the_last_bucket(length: int, size: int) -> None:
    last = bucket_count(1000, size)
    assert 1 <= bucket_of(length, size, 1000) <= last
    assert length <= 1000 or bucket_of(length, size, 1000) == last


@given(lengths, st.floats(1, 8), st.floats(0, 2), lengths)
def test_the_worst_case_is_at_least_the_expected_one(
    length: int, k: float, more: float, most: int
) -> None:
    worst = pessimistic_length(length, k, most)
    assert min(length, most) <= worst <= most
    assert pessimistic_length(length, k + more, most) >= worst


def test_rounding_is_up_but_not_for_a_last_bit() -> None:
    assert pessimistic_length(10, 1.1, 100) == 11
    assert pessimistic_length(10, 1.11, 100) == 12


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda: bucket_of(0, 16), 'length 0'),
        (lambda: bucket_of(1, 0), 'bucket size 0'),
        (lambda: bucket_count(0, 16), 'longest length 0'),
        (lambda: predicted_length(0, 16, 64), 'bucket 0'),
        (lambda: pessimistic_length(16, 0.5, 64), r'pessimism 0\.5'),
        (lambda: pessimistic_length(16, float('nan'), 64), 'pessimism nan'),
    ],
)
def test_wrong_values_are_named(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(ConfigurationError, match=message):
        call()
