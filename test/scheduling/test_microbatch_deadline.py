"""How many micro-batches where a first token is due."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.linear_costs import linear_costs

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.scheduling.microbatch import LinearCosts, round_s
from timely_llm_ros.scheduling.microbatch_deadline import count_in_time, prefill_first_token_s

LAN = LinearCosts(0.017, 0.0006, 0.001, 0.00082)
"""About what a 13B model takes on four small cards with 100 Mbps between them."""

costs = linear_costs(context_token_s=st.floats(0, 1e-6))


def test_an_urgent_prefill_does_not_wait_for_a_whole_round() -> None:
    spread = prefill_first_token_s(4, 8, 40, 1300, LAN, urgent=False)
    at_once = prefill_first_token_s(4, 8, 40, 130, LAN, urgent=True)
    assert at_once < 0.8 < spread
    short = [prefill_first_token_s(4, 8, 40, 130, LAN, urgent=urgent) for urgent in (True, False)]
    assert short[0] != short[1]


def test_a_tight_deadline_changes_the_number_and_a_loose_one_does_not() -> None:
    free = count_in_time(4, 16, 400, 100, 1e9, LAN)
    assert free.in_time
    assert free.round_s == min(round_s(4, n, 500, LAN) for n in range(1, 17))
    tight = count_in_time(4, 16, 400, 100, free.first_token_s - 0.02, LAN)
    assert tight.in_time
    assert tight.first_token_s < free.first_token_s
    assert tight.round_s >= free.round_s
    hopeless = count_in_time(4, 16, 400, 100, 0.0, LAN)
    assert not hopeless.in_time
    assert hopeless.first_token_s <= tight.first_token_s


@given(
    st.integers(1, 6),
    st.integers(1, 16),
    st.integers(0, 500),
    st.integers(0, 3000),
    st.floats(0, 10),
    costs,
    st.booleans(),
    st.integers(0, 100_000),
)
def test_the_count_is_in_time_wherever_one_is(
    stages: int,
    most: int,
    decode: int,
    prefill: int,
    deadline_s: float,
    model: LinearCosts,
    urgent: bool,
    context: int,
) -> None:
    got = count_in_time(
        stages, most, decode, prefill, deadline_s, model, urgent=urgent, context_tokens=context
    )
    counts = range(1, max(1, min(most, decode + prefill)) + 1)
    assert got.micro_batches in counts
    first_s = {
        count: prefill_first_token_s(
            stages, count, decode, prefill, model, urgent=urgent, context_tokens=context
        )
        for count in counts
    }
    assert got.first_token_s == first_s[got.micro_batches]
    in_time = [count for count in counts if first_s[count] <= deadline_s]
    assert got.in_time == bool(in_time)
    if in_time:
        rounds = [
            round_s(stages, n, decode + prefill, model, context_tokens=context) for n in in_time
        ]
        assert got.round_s == pytest.approx(min(rounds), rel=1e-9)
    else:
        assert got.first_token_s == pytest.approx(min(first_s.values()), rel=1e-9)


def test_contexts_make_a_first_token_later() -> None:
    model = replace(LAN, context_token_s=1e-6)
    for urgent in (True, False):
        short, long = (
            prefill_first_token_s(4, 8, 40, 130, model, urgent=urgent, context_tokens=context)
            for context in (0, 80_000)
        )
        # Each of the four stages that it passes has an eighth of them to read, after its turn.
        assert long >= short + 4 * 0.01


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [((0, 4, 10, 10), 'stages 0'), ((4, 0, 10, 10), 'most 0'), ((4, 4, -5, 4), 'tokens -1')],
)
def test_refused(arguments: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        count_in_time(*arguments, 1.0, LAN)
