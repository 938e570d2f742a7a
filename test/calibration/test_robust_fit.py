"""Robust fits find the truth, also among outliers, and do not depend on the samples' order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from timely_llm_ros.calibration.robust_fit import fit_linear

if TYPE_CHECKING:
    import random

    from numpy.typing import NDArray

BASE_S, SLOPE = 1.0, 2.0


def drawn(
    seed: int, count: int = 30, *, spread: float = 0.015, outliers: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return times (s) and distances (m) of calls; outliers take two to six times as long."""
    rng = np.random.default_rng(seed)
    amounts = rng.uniform(0.2, 5.0, count)
    noise = np.clip(rng.normal(0.0, spread, count), -2 * spread, 2 * spread)
    times_s = (BASE_S + SLOPE * amounts) * (1.0 + noise)
    times_s[:outliers] *= rng.uniform(2.0, 6.0, outliers)
    return times_s, amounts[:, None]


@pytest.mark.parametrize('seed', range(20))
@pytest.mark.parametrize('outliers', [0, 3, 6])
def test_thirty_samples_give_expected_times_within_two_percent(seed: int, outliers: int) -> None:
    times_s, amounts = drawn(seed, outliers=outliers)
    fit = fit_linear(times_s, amounts)
    for amount in (0.5, 1.0, 2.5, 5.0):
        truth_s = BASE_S + SLOPE * amount
        assert fit.base_s + fit.per[0] * amount == pytest.approx(truth_s, rel=0.02)
    assert not fit.inliers[:outliers].any()
    assert fit.inliers.sum() >= 30 - outliers - 2


@pytest.mark.parametrize('outliers', [0, 5])
def test_of_noisy_calls_the_fit_is_right_on_average(outliers: int) -> None:
    # Times that vary by a tenth: 30 of them cannot be better than 2 %, many thirties are.
    fits = [fit_linear(*drawn(seed, spread=0.1, outliers=outliers)) for seed in range(60)]
    for amount in (0.5, 2.5, 5.0):
        mean_s = np.mean([fit.base_s + fit.per[0] * amount for fit in fits])
        assert mean_s == pytest.approx(BASE_S + SLOPE * amount, rel=0.02)


def test_without_noise_the_fit_is_exact_whatever_a_fifth_says() -> None:
    times_s, amounts = drawn(1, spread=0.0, outliers=6)
    fit = fit_linear(times_s, amounts)
    assert (fit.base_s, fit.per[0]) == pytest.approx((BASE_S, SLOPE), rel=1e-6)
    assert fit.inliers.tolist() == [False] * 6 + [True] * 24
    assert fit.deviation < 1e-6


def test_two_arguments_are_told_apart() -> None:
    rng = np.random.default_rng(3)
    amounts = rng.uniform(0.1, 3.0, (60, 2))
    times_s = (0.5 + amounts @ np.array([2.0, 0.7])) * rng.normal(1.0, 0.01, 60)
    fit = fit_linear(times_s, amounts)
    assert fit.per == pytest.approx([2.0, 0.7], rel=0.02)
    assert fit.base_s == pytest.approx(0.5, rel=0.05)


def test_without_amounts_it_is_a_robust_mean() -> None:
    times_s = np.array([3.0, 3.1, 2.9, 3.05, 2.95, 3.0, 30.0])
    fit = fit_linear(times_s, np.empty((7, 0)))
    assert fit.base_s == pytest.approx(3.0, rel=0.01)
    assert fit.inliers.tolist() == [True] * 6 + [False]


@examples(60)
@given(
    st.lists(st.tuples(st.floats(0.01, 1000.0), st.floats(0.0, 100.0)), min_size=4, max_size=20),
    st.randoms(use_true_random=False),
)
def test_the_order_of_samples_does_not_matter(
    samples: list[tuple[float, float]], shuffler: random.Random
) -> None:
    mixed = list(samples)
    shuffler.shuffle(mixed)
    fits = [
        fit_linear(np.array([s[0] for s in given_]), np.array([[s[1]] for s in given_]))
        for given_ in (samples, mixed)
    ]
    assert fits[0].base_s == fits[1].base_s
    assert fits[0].per.tolist() == fits[1].per.tolist()
    assert fits[0].deviation == fits[1].deviation
    # No coefficient is ever negative, and every number is one.
    assert fits[0].base_s >= 0
    assert (fits[0].per >= 0).all()
    assert np.isfinite(fits[0].residuals).all()
    by_sample = dict(zip(samples, fits[0].residuals.tolist(), strict=True))
    assert by_sample == dict(zip(mixed, fits[1].residuals.tolist(), strict=True))


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match='2 samples: expected more than 2'):
        fit_linear(np.array([1.0, 2.0]), np.array([[1.0], [2.0]]))


def test_a_contribution_too_small_for_a_number_ends_the_search_all_the_same() -> None:
    amounts = np.array([[5e-324, 1.0]] * 6 + [[0.0, 2.0]] * 6)
    durations_s = np.array([2.0, 2.1, 1.9, 2.0, 2.05, 1.95, 1.0, 1.1, 0.9, 1.0, 1.05, 0.95])
    fit = fit_linear(durations_s, amounts)
    assert fit.base_s >= 0
    assert (fit.per >= 0).all()
