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
from timely_llm_ros.prediction.times.execution_time import (
    DecodeCoefficients,
    ExecutionTimeModel,
    TimeCoefficients,
)
from timely_llm_ros.prediction.times.fitting import fit_decode, fit_prefill
from timely_llm_ros.prediction.times.profiling import PrefillPoint, profile_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from timely_llm_ros.prediction.times.profiling import Point

GOLDEN = golden('golden_timebill.json')

IN_BUDGET = {
    'alpha_star', 'alpha_star_as_printed_ERRATUM', 'alpha_star_grid', 'retained_tokens',
    'predictor_input_bound', 'overrun_kill', 'overrun_skip_next',
}  # fmt: skip

IN_BENCHMARKS = {'mae_rmse_r2'}


def coefficients(given: Mapping[str, Any]) -> TimeCoefficients:
    return TimeCoefficients(*(given['coef'][name] for name in 'abcpq'))


def _decode_step(given: Mapping[str, Any]) -> float:
    return coefficients(given).step_time_s(_context(given))


def _context(given: Mapping[str, Any]) -> float:
    """The context before a step is what it adds to the first one's, as eq. 7 sums it."""
    one = TimeCoefficients(0, 0, 0, 1, 0)
    before, after = (
        one.decode_time_s(given['N_x'], length, given['alpha'])
        for length in (given['i'], given['i'] + 1)
    )
    return after - before


def _mape(given: Mapping[str, Any]) -> float:
    """All prompts are predicted to take 1 s, so what they took is the case's ratio."""
    model = ExecutionTimeModel(0, 0, 1, (DecodeCoefficients(1, 0, 0),))
    ratios = zip(given['y'], given['yhat'], strict=True)
    timings: dict[Point, list[float]] = {
        PrefillPoint(tokens): [y / yhat] for tokens, (y, yhat) in enumerate(ratios)
    }
    return profile_errors(model, timings).prefill.fitted_mape_pct


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
    'kv_len': _context,
    'decode_step_time': _decode_step,
    'decode_phase_time': lambda g: coefficients(g).decode_time_s(g['N_x'], g['n'], g['alpha']),
    'e2e_time': lambda g: coefficients(g).total_time_s(g['N_x'], g['n'], g['alpha']),
    'pessimistic_length': lambda g: pessimistic_length(g['Nhat'], g['k'], g['N_max']),
    'mape': _mape,
    'least_squares_prefill': lambda g: fit_prefill(g['N_x'], g['t']),
    'least_squares_decode': lambda g: fit_decode(g['N_kv'], g['t']),
    'eviction_leverage': lambda g: coefficients(g).leverage_s(g['N_x'], g['N_W'], g['alpha_max']),
}


def test_every_case_is_tested() -> None:
    assert FORMULAS.keys() | IN_BUDGET | IN_BENCHMARKS == GOLDEN.keys()
    assert not FORMULAS.keys() & (IN_BUDGET | IN_BENCHMARKS)


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
