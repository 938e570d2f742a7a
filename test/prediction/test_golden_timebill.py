"""TimeBill's formulas against values computed beforehand; those of ``budget`` are tested there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.golden import agrees, golden

from timely_llm_ros.prediction.lengths.response_length import (
    bucket_count,
    bucket_of,
    pessimistic_length,
    predicted_length,
)
from timely_llm_ros.prediction.times.execution_time import TimeCoefficients, context_tokens
from timely_llm_ros.prediction.times.fitting import fit_decode, fit_errors, fit_prefill

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

GOLDEN = golden('golden_timebill.json')

IN_BUDGET = {
    'alpha_star', 'alpha_star_as_printed_ERRATUM', 'alpha_star_grid', 'retained_tokens',
    'predictor_input_bound', 'overrun_kill', 'overrun_skip_next',
}  # fmt: skip


def coefficients(given: Mapping[str, Any]) -> TimeCoefficients:
    return TimeCoefficients(*(given['coef'][name] for name in 'abcpq'))


def _decode_step(given: Mapping[str, Any]) -> float:
    tokens = context_tokens(given['N_x'], given['i'], given['alpha'])
    return coefficients(given).step_time_s(tokens)


def _errors(given: Mapping[str, Any]) -> Any:
    return fit_errors(given['y'], given['yhat'])


def _uniform_overestimate(given: Mapping[str, Any]) -> float:
    size = given['B']
    lengths = range(1, 8 * size + 1)
    errors = [predicted_length(bucket_of(n, size), size, 10**6) - n for n in lengths]
    return float(np.mean(errors))


FORMULAS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    'bucket_label': lambda g: bucket_of(g['N'], g['B']),
    'num_buckets': lambda g: bucket_count(g['N_model'], g['B']),
    'predicted_length': lambda g: predicted_length(g['nhat'], g['B'], g['N_max']),
    'perfect_classifier_mae': _uniform_overestimate,
    'prefill_time': lambda g: coefficients(g).prefill_time_s(g['N_x']),
    'kv_len': lambda g: context_tokens(g['N_x'], g['i'], g['alpha']),
    'decode_step_time': _decode_step,
    'decode_phase_time': lambda g: coefficients(g).decode_time_s(g['N_x'], g['n'], g['alpha']),
    'e2e_time': lambda g: coefficients(g).total_time_s(g['N_x'], g['n'], g['alpha']),
    'pessimistic_length': lambda g: pessimistic_length(g['Nhat'], g['k'], g['N_max']),
    'mape': lambda g: _errors(g).mape_pct,
    'mae_rmse_r2': lambda g: [_errors(g).mae, _errors(g).rmse, _errors(g).r2],
    'least_squares_prefill': lambda g: fit_prefill(g['N_x'], g['t']),
    'least_squares_decode': lambda g: fit_decode(g['N_kv'], g['t']),
    'eviction_leverage': lambda g: coefficients(g).leverage_s(g['N_x'], g['N_W'], g['alpha_max']),
}


def test_every_case_is_tested() -> None:
    assert FORMULAS.keys() | IN_BUDGET == GOLDEN.keys()
    assert not FORMULAS.keys() & IN_BUDGET


@pytest.mark.parametrize('name', FORMULAS)
def test_formula(name: str) -> None:
    for case in GOLDEN[name]:
        got = FORMULAS[name](case['inputs'])
        assert agrees(got, case), f'{case}: got {got}'


def test_fits_are_right_in_every_coefficient() -> None:
    """The cases' tolerance is absolute, and the coefficients are smaller than it."""
    for name in ('least_squares_prefill', 'least_squares_decode'):
        for case in GOLDEN[name]:
            assert FORMULAS[name](case['inputs']) == pytest.approx(case['expected'], rel=1e-7)
