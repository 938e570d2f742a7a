from __future__ import annotations

import math
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.scheduling import drop_order

HELD = st.lists(
    st.tuples(
        st.integers(0, 500),
        st.floats(-5, 60),
        st.one_of(st.just(math.nan), st.floats(-1e3, 1e3)),
    ),
    max_size=12,
)


def columns(
    held: list[tuple[int, float, float]],
) -> tuple[list[int], list[float], list[float]]:
    return [it[0] for it in held], [it[1] for it in held], [it[2] for it in held]


def needed_of(order: list[int], tokens: list[int], missing: int) -> list[int]:
    """The places that are dropped where one goes on until there is room."""
    freed = list(accumulate((tokens[place] for place in order), initial=0))
    return [place for place, before in zip(order, freed, strict=False) if before < missing]


def test_who_comes_back_last_is_dropped_first() -> None:
    assert drop_order([10, 10, 10], [3.0, 9.0, 1.0], [0.0, 0.0, 0.0], 0) == [1, 0, 2]


def test_of_those_that_come_back_together_the_lowest_rank_goes_first() -> None:
    assert drop_order([10] * 3, [3.0] * 3, [2.0, 1.0, math.nan], 0) == [2, 1, 0]


def test_a_small_context_is_spared_where_a_large_one_has_to_go_in_any_case() -> None:
    assert drop_order([40, 300, 80], [9.0, 8.0, 1.0], [0.0] * 3, 260) == [1, 0, 2]
    assert drop_order([40, 300, 80], [9.0, 8.0, 1.0], [0.0] * 3, 320) == [0, 1, 2]


def test_of_two_that_could_be_spared_the_one_that_is_back_sooner_is() -> None:
    assert drop_order([50, 50, 300], [9.0, 8.0, 7.0], [0.0] * 3, 350) == [0, 2, 1]


@given(HELD, st.integers(-100, 3000))
def test_everybody_has_a_place(held: list[tuple[int, float, float]], missing: int) -> None:
    assert sorted(drop_order(*columns(held), missing)) == list(range(len(held)))


@given(HELD, st.integers(1, 3000))
def test_nobody_is_dropped_in_vain(held: list[tuple[int, float, float]], missing: int) -> None:
    tokens, back_s, ranks = columns(held)
    dropped = needed_of(drop_order(tokens, back_s, ranks, missing), tokens, missing)
    freed = sum(tokens[place] for place in dropped)
    if sum(tokens) < missing:
        assert len(dropped) == len(held)
        return
    assert freed >= missing
    assert all(freed - tokens[place] < missing for place in dropped)


@given(HELD, st.integers(1, 3000))
def test_sparing_never_drops_anybody_who_would_not_have_been_dropped_in_order(
    held: list[tuple[int, float, float]], missing: int
) -> None:
    tokens, back_s, ranks = columns(held)
    plain = drop_order(tokens, back_s, ranks, 0)
    spared = drop_order(tokens, back_s, ranks, missing)
    assert set(needed_of(spared, tokens, missing)) <= set(needed_of(plain, tokens, missing))


@given(HELD)
def test_the_order_alone_is_by_return_then_rank(held: list[tuple[int, float, float]]) -> None:
    _, back_s, _ = columns(held)
    returns = [back_s[place] for place in drop_order(*columns(held), 0)]
    assert returns == sorted(returns, reverse=True)
