"""TimeBill's eviction and overrun strategies against values computed beforehand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from support.golden import agrees, golden

from benchmarks.timebill.overrun import kill, skip_next
from benchmarks.timebill.predictor_prompt import longest_predictor_prompt
from timely_llm_ros.budget.budgeter import (
    EvictionChoice,
    choose_eviction,
    retained_tokens,
)
from timely_llm_ros.prediction.times.execution_time import TimeCoefficients

GOLDEN = golden('golden_timebill.json')


def choice_of(given: dict[str, Any]) -> EvictionChoice:
    times = TimeCoefficients(*(given['coef'][name] for name in 'abcpq'))
    return choose_eviction(
        times,
        prompt_tokens=given['N_x'],
        worst_length=given['N_W'],
        budget_s=given['T'] - given['t_predict'],
        prefill_s=times.prefill_time_s(given['N_x']),
        max_evicted=given['alpha_max'],
    )


@pytest.mark.parametrize('case', GOLDEN['alpha_star'])
def test_alpha_star(case: dict[str, Any]) -> None:
    choice = choice_of(case['inputs'])
    assert agrees(choice.evicted, case | {'expected': case['expected']['alpha']})
    assert choice.feasible is case['expected']['feasible']


@pytest.mark.parametrize('case', GOLDEN['alpha_star_as_printed_ERRATUM'])
def test_the_printed_equation_11_is_not_used(case: dict[str, Any]) -> None:
    given = case['inputs']
    coefficients = TimeCoefficients(*(given['coef'][name] for name in 'abcpq'))
    p, tokens, length = coefficients.kv_token_s, given['N_x'], given['N_W']
    spare_s = given['T'] - coefficients.prefill_time_s(tokens)
    printed = (
        1
        - spare_s / (p * tokens * (length - 1))
        + (length - 2) / (2 * p * tokens)
        + coefficients.step_s / (p * tokens)
    )
    assert printed > 1000
    assert agrees(min(given['alpha_max'], printed), case)
    assert not agrees(choice_of(given).evicted, case)


@pytest.mark.parametrize('case', GOLDEN['alpha_star_grid'])
def test_a_search_finds_the_same(case: dict[str, Any]) -> None:
    assert math.ceil(1000 * choice_of(case['inputs']).evicted) / 1000 == case['expected']


@pytest.mark.parametrize('case', GOLDEN['retained_tokens'])
def test_retained_tokens(case: dict[str, Any]) -> None:
    given = case['inputs']
    kept = retained_tokens(given['N_x'], given['alpha'], given['alpha_max'])
    assert kept == case['expected']


@pytest.mark.parametrize('case', GOLDEN['predictor_input_bound'])
def test_longest_predictor_prompt(case: dict[str, Any]) -> None:
    assert longest_predictor_prompt(*case['inputs'].values()) == case['expected']


@pytest.mark.parametrize('name', ['overrun_kill', 'overrun_skip_next'])
def test_overrun(name: str) -> None:
    strategy = kill if name == 'overrun_kill' else skip_next
    for case in GOLDEN[name]:
        report = strategy(case['inputs']['t_e2e'], case['inputs']['T'])
        assert list(report.completed) == case['expected']['done']
        assert agrees(report.completion_rate, case | {'expected': case['expected']['rate']})
