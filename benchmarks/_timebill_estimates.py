"""What the TimeBill comparison knows of a job before it is done: its times and its length."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from timely_llm_ros.prediction.fitting import coverage_factor
from timely_llm_ros.prediction.profiling import ProfilePlan, fit_profile, measure, profile_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _timebill_record import Recorded

    from timely_llm_ros.prediction.execution_time import ExecutionTimeModel, TimeCoefficients
    from timely_llm_ros.prediction.rlp import ResponseLengthModel

COVERAGE = 0.95
"""Of plan lengths and of times, each; of both together 1 - 2 (1 - 0.95)."""


def profile(loaded: Any, repeats: int, chunk: int) -> tuple[ExecutionTimeModel, dict[str, Any]]:
    """Measure and fit the execution-time estimator on the sizes of long scenes."""
    from timely_llm_ros.engines.torch_profile import TorchStopwatch

    plan = ProfilePlan(
        (128, 256, 512, 1024, 2048, 3072), (64, 256, 1024, 2048, 3072), (1,), repeats,
        step_visits=5,
    )  # fmt: skip
    timings = measure(plan, TorchStopwatch(loaded, prefill_chunk=chunk))
    times = fit_profile(timings)
    errors = profile_errors(times, timings)
    one = times.at(1)
    rows: dict[str, Any] = {
        'prefill_square_ns': one.prefill_square_s * 1e9,
        'prefill_token_us': one.prefill_token_s * 1e6,
        'prefill_ms': one.prefill_s * 1e3,
        'kv_token_us': one.kv_token_s * 1e6,
        'step_ms': one.step_s * 1e3,
        'repeats': repeats,
    }
    for name, found in (('prefill', errors.prefill), ('step', errors.steps[1])):
        assert found.held_out is not None
        rows[f'{name}_fitted_mape_pct'] = found.fitted.mape_pct
        rows[f'{name}_held_out_mape_pct'] = found.held_out.mape_pct
        rows[f'{name}_worst_pct'] = found.worst_pct
    print('estimator:', ', '.join(f'{name} {value:.4g}' for name, value in rows.items()))
    return times, rows


@dataclass(frozen=True, slots=True)
class Estimates:
    """Times of whole generations, judged on jobs of their own.

    Attributes:
        expected: Coefficients of the expected case: the profile's, times what generations really
            took of them.
        worst: Coefficients that cover :data:`COVERAGE` of prompts, and of decodings.
        factors: How much the profile was scaled, and why.
        rlp: Predicts lengths.
    """

    expected: TimeCoefficients
    worst: TimeCoefficients
    factors: dict[str, float]
    rlp: ResponseLengthModel


def calibrate(
    model: ExecutionTimeModel,
    recorded: Sequence[Recorded],
    grid: Sequence[float],
    rlp: ResponseLengthModel,
) -> Estimates:
    """Scale a profile so that it tells what other jobs take, as expected and at worst.

    A profile times forward passes. Tokenising, the grammar, choosing the first token and the
    engine's own work on a prompt add a constant, whatever the prompt's length.
    """
    one = model.at(1)
    added_s = statistics.median(
        it.prefill_s - one.prefill_time_s(it.prompt_tokens, it.cached_tokens) for it in recorded
    )
    one = replace(one, prefill_s=one.prefill_s + max(0.0, added_s))
    prefill: tuple[list[float], list[float]] = [], []
    decode: tuple[list[float], list[float]] = [], []
    for it in recorded:
        prefill[0].append(it.prefill_s)
        prefill[1].append(one.prefill_time_s(it.prompt_tokens, it.cached_tokens))
        for share, tried in zip(grid, it.tried, strict=True):
            if tried.length > 1:
                decode[0].append(tried.total_s - it.prefill_s)
                decode[1].append(one.decode_time_s(it.prompt_tokens, tried.length, share))
    factors = {'prefill_added_ms': 1e3 * added_s}
    for name, pairs in (('prefill', prefill), ('decode', decode)):
        factors[f'{name}_expected'] = statistics.median(a / b for a, b in zip(*pairs, strict=True))
        factors[f'{name}_worst'] = coverage_factor(*pairs, COVERAGE)
    print('of the profile:', ', '.join(f'{name} {value:.3f}' for name, value in factors.items()))
    cases = [
        replace(
            one,
            prefill_square_s=factors[f'prefill_{case}'] * one.prefill_square_s,
            prefill_token_s=factors[f'prefill_{case}'] * one.prefill_token_s,
            prefill_s=factors[f'prefill_{case}'] * one.prefill_s,
            kv_token_s=factors[f'decode_{case}'] * one.kv_token_s,
            step_s=factors[f'decode_{case}'] * one.step_s,
        )
        for case in ('expected', 'worst')
    ]
    return Estimates(cases[0], cases[1], factors, rlp)
