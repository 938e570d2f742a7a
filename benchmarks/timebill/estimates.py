"""What the TimeBill comparison knows of a job's times before it is done."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from timely_llm_ros.prediction.times import ProfilePlan, fit_profile, measure, profile_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.timebill.record import Recorded
    from timely_llm_ros.prediction.times import ExecutionTimeModel, TimeCoefficients, Timings

COVERAGE = 0.95
"""Of plan lengths and of times, each; of both together 1 - 2 (1 - 0.95)."""


REQUEST_ROUNDS = 6
"""Whole requests measured per round of the profile: one takes a twentieth of a second."""


def long_scenes(repeats: int) -> ProfilePlan:
    """Return the sizes of prompts with long scenes."""
    return ProfilePlan(
        (250, 500, 1000, 2000, 3000), (64, 256, 1024, 2048, 3072), (1,), repeats, step_visits=3
    )


def time_sizes(loaded: Any, plan: ProfilePlan, chunk: int) -> Timings:
    """Measure prompts and steps of those sizes."""
    from timely_llm_ros.engines.torch.compute import TorchStopwatch

    return measure(plan, TorchStopwatch(loaded, prefill_chunk=chunk, steps=24))


def profile(
    loaded: Any, parts: Sequence[Timings], repeats: int, chunk: int
) -> tuple[ExecutionTimeModel, dict[str, Any]]:
    """Fit the execution-time estimator to what was measured before and after the jobs.

    A slow spell of the machine in one part then does not decide.
    """
    from timely_llm_ros.engines.torch.compute import find_method, measure_requests

    timings = {point: [it for part in parts for it in part[point]] for point in parts[0]}
    model = fit_profile(timings)
    errors = profile_errors(model, timings)
    overhead = measure_requests(
        loaded,
        model,
        prefill_chunk=chunk,
        rounds=REQUEST_ROUNDS * repeats,
        eviction=find_method('snapkv'),
    )
    times = overhead.added_to(model)
    one = times.at(1)
    rows: dict[str, Any] = {
        'prefill_square_ns': one.prefill_square_s * 1e9,
        'prefill_token_us': one.prefill_token_s * 1e6,
        'prefill_ms': one.prefill_s * 1e3,
        'kv_token_us': one.kv_token_s * 1e6,
        'step_ms': one.step_s * 1e3,
        'request_prompt_ms': overhead.prompt_s * 1e3,
        'request_step_ms': overhead.steps_s[0][1] * 1e3,
        'evicting_token_us': overhead.evicting_token_s * 1e6,
        'repeats': repeats,
    }
    for name, found in (('prefill', errors.prefill), ('step', errors.steps[1])):
        rows |= {f'{name}_{key}': value for key, value in asdict(found).items()}
    print('estimator:', ', '.join(f'{name} {value:.4g}' for name, value in rows.items()))
    return times, rows


@dataclass(frozen=True, slots=True)
class Estimates:
    """What a planner with that profile and predictor knows of a job.

    Attributes:
        expected: Coefficients of the expected case.
        worst: Coefficients that cover :data:`COVERAGE` of single prompts and steps.
    """

    expected: TimeCoefficients
    worst: TimeCoefficients

    @classmethod
    def of(cls, times: ExecutionTimeModel) -> Estimates:
        """Return what a profile says of one generation alone."""
        return cls(times.at(1), times.at(1, coverage=COVERAGE))


def factors(
    estimates: Estimates, recorded: Sequence[Recorded], grid: Sequence[float]
) -> dict[str, float]:
    """Return what whole generations took of what was expected: medians and 95 % quantiles."""
    one = estimates.expected
    found: dict[str, list[float]] = {'prefill': [], 'decode': []}
    for it in recorded:
        found['prefill'].append(
            it.prefill_s / one.prefill_time_s(it.prompt_tokens, it.cached_tokens)
        )
        for share, tried in zip(grid, it.tried, strict=True):
            if tried.length > 1:
                said_s = one.decode_time_s(it.prompt_tokens, tried.length, share)
                found['decode'].append((tried.total_s - it.prefill_s) / said_s)
    rows = {}
    for name, ratios in found.items():
        rows[f'{name}_expected'] = statistics.median(ratios)
        rows[f'{name}_95_pct'] = sorted(ratios)[int(0.95 * (len(ratios) - 1))]
    print('of what was expected:', ', '.join(f'{name} {it:.3f}' for name, it in rows.items()))
    return rows
