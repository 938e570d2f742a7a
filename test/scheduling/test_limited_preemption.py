from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.scheduling.preemption import limited_preemption_rank, preemption_limit


@given(st.floats(0.1, 1000), st.floats(0, 1000), st.floats(0, 1))
def test_a_job_past_its_limit_outranks_all(predicted: float, age: float, share: float) -> None:
    rank = float(limited_preemption_rank(predicted, age, share))
    if age < share * predicted - 1e-6:
        assert rank == predicted - age
    elif age > share * predicted + 1e-6:
        assert rank == -math.inf


@given(st.floats(0, 1000), st.floats(0, 1))
def test_the_limit_is_within_the_prediction(predicted: float, share: float) -> None:
    assert 0 <= preemption_limit(predicted, share) <= predicted + 1e-9


def test_the_limit_in_tokens_is_not_off_by_a_last_bit() -> None:
    assert preemption_limit(25.0, 0.28) == 7
    with pytest.raises(ConfigurationError, match=r'share 1\.1'):
        limited_preemption_rank(10, 0, 1.1)
