"""TRAIL's rank of a job by its prediction, its age and the share c."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.trail.theory.limited_preemption import limited_preemption_rank
from timely_llm_ros.errors import ConfigurationError


@given(st.floats(0.1, 1000), st.floats(0, 1000), st.floats(0, 1))
def test_a_job_past_its_limit_outranks_all(predicted: float, age: float, share: float) -> None:
    rank = float(limited_preemption_rank(predicted, age, share))
    if age < share * predicted - 1e-6:
        assert rank == predicted - age
    elif age > share * predicted + 1e-6:
        assert rank == -math.inf


def test_a_share_above_one_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r'share 1\.1'):
        limited_preemption_rank(10, 0, 1.1)
