"""Fits times as a base plus so much per unit of some amounts; a few wrong times do no harm.

The starting values minimise the sum of absolute residuals; iteratively reweighted least squares
with Tukey's biweight [1]_ refine them. The residuals are *relative*, because skills vary in
proportion to their time. No coefficient is negative: more to do never makes a skill faster.

References:
    .. [1] A. E. Beaton, J. W. Tukey: The fitting of power series, meaning polynomials,
       illustrated on band-spectroscopic data. Technometrics 16 (1974) 147-185.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.prediction.times import nonnegative_least_squares

if TYPE_CHECKING:
    from numpy.typing import NDArray

BIWEIGHT = 4.685
"""Residuals beyond this many standard deviations count for nothing: 95 % efficient [1]_."""

OUTLIER = 3.5
"""Beyond this many standard deviations a residual is called an outlier."""

LEAST_DEVIATION = 1e-3
"""Relative residuals are taken to vary at least this much, though most may fit exactly."""

LEAST_AMOUNT = 1e-12
"""A smaller amount, in metres, radians or whatever it is counted in, is taken for 0."""

ROUNDS = 100
"""Most rounds of each stage, which ends sooner once nothing changes any more."""

SHARE = 0.75
"""The deviation is that of the best three quarters, so a quarter may be wrong by any amount.

The usual half would bear more, but among few samples a handful often agree by chance.
"""

_QUANTILE_OF_NORMAL = 1.15035
"""That share of the absolute values of a standard normal variable lies below this."""

_LEAST_SHARE = 0.05
"""Residuals are relative to at least this share of the median time."""


@dataclass(frozen=True, slots=True)
class LinearFit:
    """Times as a base plus so much per unit of each amount.

    Attributes:
        base_s: Time for no amount at all (s), at least 0.
        per: Seconds per unit of each amount, shape (k,), at least 0.
        errors: Standard error of each of ``per``, shape (k,).
        residuals: Measured over expected time less 1, in the order given, shape (n,).
        inliers: Which of the measured times are no outliers, shape (n,).
        deviation: Standard deviation of the inliers' residuals.
    """

    base_s: float
    per: NDArray[np.float64]
    errors: NDArray[np.float64]
    residuals: NDArray[np.float64]
    inliers: NDArray[np.bool_]
    deviation: float


def fit_linear(durations_s: NDArray[np.float64], amounts: NDArray[np.float64]) -> LinearFit:
    """Fit times to amounts; the order of the samples does not matter, to the last bit.

    Args:
        durations_s: Measured times (s), all above 0, shape (n,).
        amounts: What may explain them, shape (n, k); k may be 0.

    Raises:
        ValueError: There are not more samples than coefficients.
    """
    count, terms = len(durations_s), amounts.shape[1] + 1
    if count <= terms:
        raise ValueError(f'{count} samples: expected more than {terms}')
    order = np.lexsort((durations_s, *amounts.T))
    times_s = durations_s[order]
    # The coefficient of an amount next to nothing would be no number.
    told = np.where(amounts >= LEAST_AMOUNT, amounts, 0.0)
    design = np.column_stack((np.ones(count), told[order]))
    floor_s = _LEAST_SHARE * float(np.median(times_s))
    coefficients = _least_absolute(design, times_s, floor_s)
    coefficients, weights, deviation = _biweight(design, times_s, coefficients, floor_s)
    residuals = _relative(design, times_s, coefficients, floor_s)
    inliers = np.abs(residuals) <= OUTLIER * deviation
    per_second = weights / np.square(np.maximum(design @ coefficients, floor_s))
    covariance = deviation**2 * np.linalg.pinv(design.T @ (per_second[:, None] * design))
    kept = residuals[inliers]
    back = np.argsort(order)
    return LinearFit(
        base_s=float(coefficients[0]),
        per=coefficients[1:],
        errors=np.sqrt(np.maximum(np.diag(covariance)[1:], 0.0)),
        residuals=residuals[back],
        inliers=inliers[back],
        deviation=float(np.sqrt(np.mean(np.square(kept)) * _freedom(len(kept), terms))),
    )


def _least_absolute(
    design: NDArray[np.float64], times_s: NDArray[np.float64], floor_s: float
) -> NDArray[np.float64]:
    """Return coefficients of about the least sum of absolute residuals."""
    coefficients = _solve(design, times_s, np.ones(len(times_s)))
    for _ in range(ROUNDS):
        residuals_s = np.abs(times_s - design @ coefficients)
        # A sample that fits exactly would have an infinite weight.
        weights = 1.0 / np.maximum(residuals_s, 1e-4 * max(floor_s, 1e-9))
        earlier, coefficients = coefficients, _solve(design, times_s, weights)
        if _settled(earlier, coefficients):
            break
    return coefficients


def _biweight(
    design: NDArray[np.float64],
    times_s: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    floor_s: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return the final coefficients, the samples' weights, and the residuals' deviation."""
    weights, deviation = np.ones(len(times_s)), 0.0
    for _ in range(ROUNDS):
        residuals = _relative(design, times_s, coefficients, floor_s)
        deviation = float(np.quantile(np.abs(residuals), SHARE)) / _QUANTILE_OF_NORMAL
        deviation *= float(np.sqrt(_freedom(len(times_s), design.shape[1])))
        deviation = max(deviation, LEAST_DEVIATION)
        scaled = np.minimum(np.abs(residuals) / (BIWEIGHT * deviation), 1.0)
        weights = np.square(1.0 - np.square(scaled))
        expected_s = np.maximum(design @ coefficients, floor_s)
        earlier = coefficients
        coefficients = _solve(design, times_s, weights / np.square(expected_s))
        if _settled(earlier, coefficients):
            break
    return coefficients, weights, deviation


def _solve(
    design: NDArray[np.float64], times_s: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return weighted least-squares coefficients, none of them negative."""
    root = np.sqrt(weights)
    return nonnegative_least_squares(root[:, None] * design, root * times_s)


def _relative(
    design: NDArray[np.float64],
    times_s: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    floor_s: float,
) -> NDArray[np.float64]:
    return times_s / np.maximum(design @ coefficients, floor_s) - 1.0


def _freedom(count: int, terms: int) -> float:
    """Return what makes a mean square of residuals one per degree of freedom."""
    return count / max(count - terms, 1)


def _settled(earlier: NDArray[np.float64], later: NDArray[np.float64]) -> bool:
    return bool(np.allclose(earlier, later, rtol=1e-10, atol=1e-12))
