"""Fits TimeBill's coefficients to measured times (section 4.2, eq. 4 and 6).

The fits minimise errors relative to each time, which serves short prompts as well as long ones.
Coefficients are never negative, because noise must not make longer prompts faster.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


def nonnegative_least_squares(matrix: ArrayLike, target: ArrayLike) -> Floats:
    """Return the ``x >= 0`` that minimises ``|matrix x - target|``, ``[columns]``.

    Raises:
        ConfigurationError: Shapes that do not fit, fewer rows than columns, or a value that is
            not finite.
    """
    # Imported here because it takes a third of a second, and only a planner that fits needs it.
    from scipy.optimize import nnls

    rows = np.asarray(matrix, np.float64)
    wanted = np.asarray(target, np.float64)
    if rows.ndim != 2 or wanted.shape != rows.shape[:1] or rows.shape[0] < rows.shape[1]:
        raise ConfigurationError(
            f'{wanted.shape} measurements of {rows.shape}: expected at least one per coefficient'
        )
    if not (np.isfinite(rows).all() and np.isfinite(wanted).all()):
        raise ConfigurationError('measurements: expected finite numbers')
    # Columns of prompts up to 32768 tokens have a condition number of 1e9 as they are.
    scale = np.linalg.norm(rows, axis=0)
    scale[scale == 0] = 1.0
    result: Floats = nnls(rows / scale, wanted)[0] / scale
    return result


def _fit(columns: Sequence[Floats], measured_s: ArrayLike) -> list[float]:
    times_s = np.asarray(measured_s, np.float64)
    if (times_s <= 0).any():
        raise ConfigurationError(f'time {float(times_s.min())!r} s: expected more than 0')
    matrix = np.stack(columns, axis=1) / times_s[:, None]
    found: list[float] = nonnegative_least_squares(matrix, np.ones_like(times_s)).tolist()
    return found


def fit_prefill(
    prompt_tokens: ArrayLike, times_s: ArrayLike, cached_tokens: ArrayLike = 0
) -> tuple[float, float, float]:
    """Return ``(a, b, c)`` of eq. 4a (s per squared token, s per token, s).

    Args:
        prompt_tokens: ``[n]``, tokens of each measured prompt; at least three measurements.
        times_s: ``[n]``.
        cached_tokens: Leading tokens that were not computed, ``[n]`` or one number.

    Raises:
        ConfigurationError: Measurements that cannot be fitted.
    """
    tokens = np.asarray(prompt_tokens, np.float64)
    cached = np.broadcast_to(np.asarray(cached_tokens, np.float64), tokens.shape)
    new = tokens - cached
    a, b, c = _fit((new * (tokens + cached), new, np.ones_like(tokens)), times_s)
    return a, b, c


def fit_decode(kv_tokens: ArrayLike, times_s: ArrayLike) -> tuple[float, float]:
    """Return ``(p, q)`` of eq. 6 (s per token, s).

    Args:
        kv_tokens: ``[n]``, tokens of context that each measured step read; at least two.
        times_s: ``[n]``.

    Raises:
        ConfigurationError: Measurements that cannot be fitted.
    """
    tokens = np.asarray(kv_tokens, np.float64)
    p, q = _fit((tokens, np.ones_like(tokens)), times_s)
    return p, q


def coverage_factor(measured_s: ArrayLike, predicted_s: ArrayLike, coverage: float) -> float:
    """Return by what to multiply predictions so that they are bounds, at least 1.

    Half of all times exceed a least-squares fit. Another measurement of the same kind stays below
    prediction times factor with a probability of at least ``coverage`` (split conformal
    prediction), provided that these measurements were not fitted.

    Args:
        measured_s: ``[n]``, single times (s), not their medians.
        predicted_s: ``[n]``, all above 0 (s).
        coverage: Between 0 and 1.

    Raises:
        ConfigurationError: Too few measurements to say so: ``coverage / (1 - coverage)`` are
            needed, 99 for 0.99.
    """
    if not 0 < coverage < 1:
        raise ConfigurationError(f'coverage {coverage!r}: expected between 0 and 1')
    predicted = np.asarray(predicted_s, np.float64)
    if not (predicted > 0).all():
        raise ConfigurationError(f'predicted {float(predicted.min())!r} s: expected more than 0')
    ratios = np.sort(np.asarray(measured_s, np.float64) / predicted)
    # Rounded, because (n + 1) * 0.99 of 99 measurements is a little more than 99.
    place = math.ceil(round((len(ratios) + 1) * coverage, 9))
    if place > len(ratios):
        needed = math.ceil(round(coverage / (1 - coverage), 6))
        raise ConfigurationError(
            f'{len(ratios)} measurements for coverage {coverage!r}: expected at least {needed}'
        )
    return max(1.0, float(ratios[place - 1]))
