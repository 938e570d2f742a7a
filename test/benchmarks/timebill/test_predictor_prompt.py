from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.timebill.predictor_prompt import longest_predictor_prompt
from timely_llm_ros.errors import ConfigurationError


@given(st.floats(0, 1e-6), st.floats(1e-7, 1e-3), st.floats(0, 0.1), st.floats(0, 10))
def test_the_longest_predictor_prompt_is_the_last_that_fits(
    square_s: float, token_s: float, constant_s: float, prefill_s: float
) -> None:
    def time_s(tokens: int) -> float:
        return square_s * tokens * tokens + token_s * tokens + constant_s

    tokens = longest_predictor_prompt(square_s, token_s, constant_s, prefill_s)
    assert time_s(tokens + 1) > prefill_s
    assert tokens == 0 or time_s(tokens) <= prefill_s


def test_a_predictor_that_takes_no_time_has_no_longest_prompt() -> None:
    with pytest.raises(ConfigurationError, match='one of the first two above 0'):
        longest_predictor_prompt(0.0, 0.0, 0.01, 1.0)
