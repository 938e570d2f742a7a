from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.skills.number_ranges import decimal_range, integer_range

bounds = st.integers(-(10**6), 10**6)


@given(bounds, bounds, st.lists(bounds))
def test_an_integer_matches_exactly_where_it_is_in_range(
    one: int, other: int, numbers: list[int]
) -> None:
    low, high = sorted((one, other))
    pattern = re.compile(integer_range(low, high))
    near = [end + step for end in (low, high, 0) for step in (-1, 0, 1)]
    for number in numbers + near:
        assert bool(pattern.fullmatch(str(number))) == (low <= number <= high)


def test_small_integer_ranges_exhaustively() -> None:
    for low in range(-12, 13):
        for high in range(low, 24):
            pattern = re.compile(integer_range(low, high))
            matched = [n for n in range(-130, 131) if pattern.fullmatch(str(n))]
            assert matched == list(range(low, high + 1))


@given(bounds, bounds, st.lists(bounds), st.integers(1, 3))
def test_a_decimal_matches_exactly_where_it_is_in_range(
    one: int, other: int, numbers: list[int], digits: int
) -> None:
    low, high = sorted((one, other))
    pattern = re.compile(decimal_range(low / 1000, high / 1000, 3))
    near = [end + step for end in (low, high, 0) for step in (-1, 0, 1)]
    for number in numbers + near:
        sign, magnitude = '-' * (number < 0), abs(number)
        texts = [f'{sign}{magnitude // 1000}.{magnitude % 1000:03}']
        if magnitude % 1000 == 0:
            texts.append(f'{sign}{magnitude // 1000}')
        short = f'{magnitude % 1000:03}'[:digits]
        if int(short.ljust(3, '0')) == magnitude % 1000:
            texts.append(f'{sign}{magnitude // 1000}.{short}')
        for text in texts:
            assert bool(pattern.fullmatch(text)) == (low <= number <= high), text


def test_only_the_shortest_form_of_a_number_matches() -> None:
    for pattern in (integer_range(-50, 50), decimal_range(-50, 50, 3)):
        for text in ('', '-', '+1', '01', '-0', '-0.0', '-0.000', '1.', '.5', '1.0000', '1e1'):
            assert not re.fullmatch(pattern, text), text
