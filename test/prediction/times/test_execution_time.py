from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.times.execution_time import (
    DecodeCoefficients,
    ExecutionTimeModel,
    Margin,
    TimeCoefficients,
)

TIMES = TimeCoefficients(1e-8, 2e-4, 0.02, 1e-6, 0.03)
MODEL = ExecutionTimeModel(
    1e-8,
    2e-4,
    0.02,
    (
        DecodeCoefficients(1, 1e-6, 0.030),
        DecodeCoefficients(4, 2e-6, 0.036),
        DecodeCoefficients(8, 2e-6, 0.048),
    ),
    (Margin(0.9, 1.1, 1.2), Margin(0.99, 1.5, 2.0)),
)


@given(st.integers(0, 4000), st.integers(0, 600), st.floats(0, 1))
def test_decoding_is_the_sum_of_its_steps(prompt: int, length: int, evicted: float) -> None:
    kept = (1 - evicted) * prompt
    steps_s = [TIMES.step_time_s(kept + step - 1) for step in range(1, length)]
    assert TIMES.decode_time_s(prompt, length, evicted) == pytest.approx(math.fsum(steps_s))


@given(st.integers(0, 32768), st.integers(0, 32768), st.integers(0, 32768))
def test_prefill_in_parts_costs_only_the_constant_again(a: int, b: int, c: int) -> None:
    _, middle, high = sorted((a, b, c))
    parts_s = TIMES.prefill_time_s(middle) + TIMES.prefill_time_s(high, middle)
    assert parts_s == pytest.approx(TIMES.prefill_time_s(high) + TIMES.prefill_s)
    assert TIMES.prefill_time_s(high, high) == TIMES.prefill_s


@given(st.integers(0, 8000), st.integers(1, 800), st.floats(0, 1))
def test_leverage_is_what_eviction_saves(prompt: int, length: int, most: float) -> None:
    saved_s = TIMES.total_time_s(prompt, length) - TIMES.total_time_s(prompt, length, most)
    assert TIMES.leverage_s(prompt, length, most) == pytest.approx(saved_s, abs=1e-9)


@given(
    st.floats(0.0, 0.2), st.integers(0, 3000), st.integers(0, 3000), st.sampled_from([1, 4, 6, 8])
)
def test_paced_times_are_never_too_short(
    least_s: float, prompt: int, context: int, batch: int
) -> None:
    paced = MODEL.paced(least_s, prefill_chunk=128, longest=3000).at(batch)
    own = MODEL.at(batch)
    assert paced.step_time_s(context) >= max(own.step_time_s(context), least_s) * (1 - 1e-9)
    chunks = -(-prompt // 128)
    assert paced.prefill_time_s(prompt) >= own.prefill_time_s(prompt)
    assert paced.prefill_time_s(prompt) >= chunks * least_s * (1 - 1e-9)
    assert MODEL.paced(0.0, prefill_chunk=128, longest=3000) == MODEL


@pytest.mark.parametrize('name', ['kv_token_s', 'step_s', 'prefill_square_s'])
@pytest.mark.parametrize('value', [-1e-9, math.nan, math.inf])
def test_coefficients_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=name):
        replace(TIMES, **{name: value})


def test_more_cached_than_there_is() -> None:
    with pytest.raises(ConfigurationError, match=r'11 cached tokens: expected 0 to 10'):
        TIMES.prefill_time_s(10, 11)


# By batch


def test_measured_batches_are_as_measured_and_others_between() -> None:
    assert MODEL.at(1) == TIMES
    assert (MODEL.at(4).kv_token_s, MODEL.at(4).step_s) == (2e-6, 0.036)
    between = MODEL.at(2)
    assert between.kv_token_s == pytest.approx(4e-6 / 3)
    assert between.step_s == pytest.approx(0.032)
    assert MODEL.at(12).step_s == pytest.approx(0.060)
    assert MODEL.at(12).kv_token_s == 2e-6
    only = replace(MODEL, decode=MODEL.decode[:1])
    assert only.at(9) == TIMES


def test_what_others_hold_costs_and_cannot_be_evicted() -> None:
    alone, among = MODEL.at(4), MODEL.at(4, other_kv_tokens=3000)
    assert among.step_time_s(100) == pytest.approx(alone.step_time_s(3100))
    assert among.leverage_s(100, 50, 0.5) == alone.leverage_s(100, 50, 0.5)


def test_a_margin_scales_prefill_and_steps() -> None:
    worst = MODEL.at(1, coverage=0.99)
    assert worst.prefill_time_s(500) == pytest.approx(1.5 * TIMES.prefill_time_s(500))
    assert worst.decode_time_s(500, 40) == pytest.approx(2.0 * TIMES.decode_time_s(500, 40))
    # The next higher coverage that was measured covers a lower one.
    assert MODEL.at(1, coverage=0.95) == worst
    with pytest.raises(ConfigurationError, match=r'coverage 0\.999: expected at most one of'):
        MODEL.at(1, coverage=0.999)


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'decode': ()}, 'batch sizes'),
        ({'decode': MODEL.decode[::-1]}, 'ascending'),
        ({'decode': (DecodeCoefficients(0, 1e-6, 0.03),)}, 'batch sizes'),
        ({'decode': (DecodeCoefficients(1, -1e-6, 0.03),)}, 'kv_token_s'),
        ({'margins': (Margin(0.99, 0.9, 1.0),)}, 'factors >= 1'),
        ({'margins': (Margin(1.0, 1.0, 1.0),)}, 'between 0 and 1'),
    ],
)
def test_models_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        replace(MODEL, **changes)


def test_a_batch_of_none() -> None:
    with pytest.raises(ConfigurationError, match='batch 0'):
        MODEL.at(0)
