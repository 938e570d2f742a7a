"""The difference between a planner's clock and a replica's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.engines.ray.wire import ClockDifference

WAYS = st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0))


@given(st.floats(-1e5, 1e5), st.lists(WAYS, min_size=1, max_size=100))
def test_it_is_known_to_half_of_the_quickest_of_the_latest_round_trips(
    ahead_s: float, ways: list[tuple[float, float]]
) -> None:
    clock = ClockDifference()
    assert clock.ahead_s == 0.0
    for number, (there_s, back_s) in enumerate(ways):
        asked_s = 10.0 * number
        clock.observe(asked_s, asked_s + there_s + back_s, asked_s + there_s + ahead_s)
    quickest_s = min(there_s + back_s for there_s, back_s in ways[-64:])
    assert clock.ahead_s == pytest.approx(ahead_s, abs=quickest_s / 2 + 1e-6)
