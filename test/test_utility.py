"""Time utilities against TimelyLLM's worked values."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.errors import InvalidTaskError
from timely_llm_ros.utility import NORMAL, URGENT, TimeUtility

GOLDEN = json.loads(
    (Path(__file__).parent / 'data' / 'golden_timelyllm_times.json').read_text(encoding='utf-8')
)

utilities = st.builds(
    TimeUtility,
    expected_response_s=st.floats(0, 1e3),
    slope_per_s=st.floats(-1e3, 0),
    peak=st.floats(1e-3, 1e3),
)


@pytest.mark.parametrize('case', GOLDEN['tuf'], ids=lambda c: f'{c["inputs"]["t"]}')
def test_first(case: dict[str, Any]) -> None:
    given_ = case['inputs']
    utility = TimeUtility(given_['ERT'], given_['alpha'], given_['beta'])
    assert utility.first(given_['t']) == pytest.approx(case['expected'], abs=case['tol'])


@pytest.mark.parametrize('case', GOLDEN['tuf1'], ids=lambda c: f'{c["inputs"]["t"]}')
def test_a_later_segment_is_expected_at_once(case: dict[str, Any]) -> None:
    given_ = case['inputs']
    utility = TimeUtility(0.0, given_['alpha'], given_['beta'])
    assert utility.first(given_['t']) == pytest.approx(case['expected'], abs=case['tol'])


@pytest.mark.parametrize('case', GOLDEN['cutoff'], ids=lambda c: c['inputs']['cls'])
def test_cutoff(case: dict[str, Any]) -> None:
    given_ = case['inputs']
    utility = TimeUtility(given_['ERT'], given_['alpha'], given_['beta'])
    assert utility.first(case['expected']) == pytest.approx(0, abs=-given_['alpha'] * case['tol'])


def test_a_flat_utility_never_crosses_zero() -> None:
    assert TimeUtility(1, 0, 1).first(1e9) == 1


def test_the_papers_settings() -> None:
    assert (NORMAL.expected_response_s, NORMAL.slope_per_s, NORMAL.peak) == (1, -2, 1)
    assert (URGENT.expected_response_s, URGENT.slope_per_s, URGENT.peak) == (0.2, -6.67, 2)


@given(utilities, st.floats(-10, 1e4), st.floats(0, 1e4))
def test_later_is_never_better(utility: TimeUtility, waiting_s: float, more_s: float) -> None:
    assert utility.first(waiting_s + more_s) <= utility.first(waiting_s) <= utility.peak
    assert utility.first(utility.expected_response_s) == utility.peak


@pytest.mark.parametrize(
    ('values', 'offender'),
    [
        ((-0.1, -1, 1), '-0.1'),
        ((math.inf, -1, 1), 'inf'),
        ((1, 0.5, 1), '0.5'),
        ((1, math.nan, 1), 'nan'),
        ((1, -1, 0), 'peak 0'),
        ((1, -1, math.inf), 'inf'),
    ],
)
def test_values_out_of_range_are_refused(values: tuple[float, ...], offender: str) -> None:
    with pytest.raises(InvalidTaskError, match=offender):
        TimeUtility(*values)
