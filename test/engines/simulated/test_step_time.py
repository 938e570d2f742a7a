from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.engines.simulated.step_time import (
    HARDWARE,
    StepTimeModel,
    StepWork,
    find_hardware,
)
from timely_llm_ros.errors import ConfigurationError


def test_the_rtx_4090_preset_is_that_of_table_1() -> None:
    model = find_hardware('rtx4090_llama3_8b').step_time
    prefill_s = model.step_s(StepWork(0, prefills=((0, 1300),)))
    assert prefill_s == pytest.approx(0.13331, rel=1e-3)
    prefill_s = model.step_s(StepWork(0, prefills=((0, 2884),)))
    assert prefill_s == pytest.approx(0.32845, rel=1e-3)
    assert model.step_s(StepWork(1, kv_tokens=2884)) == pytest.approx(0.02175, rel=1e-3)


def test_the_toy_preset_is_the_reference_simulation() -> None:
    model = find_hardware('toy').step_time
    assert model.step_s(StepWork(1)) == pytest.approx(0.0216)
    assert model.step_s(StepWork(6, kv_tokens=10_000)) == pytest.approx(0.0216 * 1.10)
    one_new = StepWork(2, prefills=((50, 80),), begun=1, waiting=3)
    assert model.step_s(one_new) == pytest.approx(0.0216 * 1.02 + 0.030 + 0.000405 + 3 * 0.000202)
    two_back = StepWork(2, resumed=2, waiting=5)
    chosen_s = 2 * 0.000405 + (5 + 4) * 0.000202
    assert model.step_s(two_back) == pytest.approx(0.0216 * 1.02 + 2 * 0.0005 + chosen_s)
    refusing = find_hardware('toy_refusals').step_time
    assert refusing.step_s(two_back) - model.step_s(two_back) == pytest.approx(
        0.000405 + 3 * 0.000202
    )
    all_chosen = StepWork(2, resumed=2, waiting=2)
    assert refusing.step_s(all_chosen) == model.step_s(all_chosen)
    uncached = find_hardware('toy_uncached').step_time
    assert uncached.step_s(one_new) - model.step_s(one_new) == pytest.approx(0.103)


@given(
    st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 5000),
    st.sampled_from(sorted(HARDWARE)),
)  # fmt: skip
def test_prefill_in_pieces_costs_what_it_costs_at_once(a: int, b: int, c: int, name: str) -> None:
    low, middle, high = sorted((a, b, c))
    model = HARDWARE[name].step_time
    pieces_s = model.step_s(StepWork(0, prefills=((low, middle), (middle, high))))
    assert pieces_s == pytest.approx(model.step_s(StepWork(0, prefills=((low, high),))))


def test_a_cached_prefix_costs_nothing() -> None:
    model = StepTimeModel(prefill_token_s=1e-4, prefill_square_s=1e-8)
    whole_s = model.step_s(StepWork(0, prefills=((0, 1000),)))
    rest_s = model.step_s(StepWork(0, prefills=((900, 1000),)))
    assert rest_s < 0.2 * whole_s


@given(st.integers(0, 5000), st.integers(0, 5000), st.floats(1e-7, 1e-3))
def test_copying_pays_where_both_copies_are_shorter_than_a_prompt(
    before: int, tokens: int, copy_token_s: float
) -> None:
    model = replace(HARDWARE['rtx4090_llama3_8b'].step_time, copy_token_s=copy_token_s)
    copies_s = model.step_s(StepWork(0, copied=2 * tokens))
    prompt_s = model.step_s(StepWork(0, prefills=((before, before + tokens),), begun=1))
    assert model.copying_pays(before, before + tokens) == (copies_s < prompt_s)


def test_nothing_is_copied_where_there_is_no_link() -> None:
    assert HARDWARE['rtx4090_llama3_8b'].step_time.copying_pays(100, 500)
    assert not HARDWARE['toy'].step_time.copying_pays(100, 500)


def test_unknown_hardware_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"hardware 'abacus': expected one of .* toy, "):
        find_hardware('abacus')
