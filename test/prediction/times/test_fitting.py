from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.times.fitting import (
    coverage_factor,
    fit_decode,
    fit_prefill,
    nonnegative_least_squares,
)

numbers = st.floats(-10, 10).map(lambda value: round(value, 3))


def by_enumeration(matrix: np.ndarray, target: np.ndarray) -> float:
    """The least error of a non-negative solution, trying every set of columns."""
    best = float(target @ target)
    for size in range(1, matrix.shape[1] + 1):
        for columns in itertools.combinations(range(matrix.shape[1]), size):
            part = np.linalg.lstsq(matrix[:, columns], target, rcond=None)[0]
            if (part >= 0).all():
                best = min(best, float(np.sum((matrix[:, columns] @ part - target) ** 2)))
    return best


@given(st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        arrays.arrays(float, (6, n), elements=numbers), arrays.arrays(float, 6, elements=numbers)
    )
))  # fmt: skip
def test_no_set_of_columns_is_better(problem: tuple[np.ndarray, np.ndarray]) -> None:
    matrix, target = problem
    assume((np.linalg.norm(matrix, axis=0) > 0.1).all())
    # Among columns that nearly depend on each other, which is best is a matter of rounding.
    scaled = matrix / np.linalg.norm(matrix, axis=0)
    assume(np.linalg.cond(scaled) < 1e4)
    found = nonnegative_least_squares(matrix, target)
    assert (found >= 0).all()
    error = float(np.sum((matrix @ found - target) ** 2))
    assert error <= by_enumeration(matrix, target) + 1e-7


def test_known_answers() -> None:
    # Without the bound the second would be -1.
    assert nonnegative_least_squares([[1, 0], [0, 1]], [2, -1]).tolist() == [2, 0]
    assert nonnegative_least_squares([[1, 1], [0, 1]], [1, 2]).tolist() == pytest.approx([0, 1.5])
    assert nonnegative_least_squares([[1], [1]], [-1, -2]).tolist() == [0]
    assert nonnegative_least_squares([[0, 1], [0, 1]], [3, 3]).tolist() == pytest.approx([0, 3])


@pytest.mark.parametrize(
    ('matrix', 'target', 'message'),
    [
        ([[1, 2]], [1], 'at least one per coefficient'),
        ([[1], [2]], [1], 'at least one per coefficient'),
        ([[1], [math.nan]], [1, 2], 'finite'),
    ],
)
def test_problems_that_cannot_be_solved(
    matrix: list[list[float]], target: list[float], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        nonnegative_least_squares(matrix, target)


@given(st.floats(1e-10, 1e-7), st.floats(1e-6, 1e-3), st.floats(1e-3, 0.1), st.booleans())
def test_prefill_coefficients_are_recovered(a: float, b: float, c: float, cached: bool) -> None:
    tokens = np.array([0, 64, 512, 2048, 8192, 16384, 32768])
    old = tokens // 3 if cached else np.zeros_like(tokens)
    times_s = a * (tokens**2 - old**2) + b * (tokens - old) + c
    found = fit_prefill(tokens, times_s, old)
    assert found == pytest.approx((a, b, c), rel=1e-5)


@given(st.floats(1e-9, 1e-5), st.floats(1e-3, 0.1))
def test_decode_coefficients_are_recovered(p: float, q: float) -> None:
    tokens = np.array([0, 100, 1000, 32768])
    assert fit_decode(tokens, p * tokens + q) == pytest.approx((p, q), rel=1e-6)


def test_noise_never_makes_longer_faster() -> None:
    tokens = np.array([100, 200, 300, 400])
    p, q = fit_decode(tokens, [0.04, 0.03, 0.02, 0.01])
    assert p == 0.0
    # The sum of 1 / t over the sum of 1 / t^2 has the least relative errors.
    assert q == pytest.approx(0.03 / 2.05)
    a, b, c = fit_prefill(tokens, [0.4, 0.3, 0.2, 0.1])
    assert (a, b) == (0.0, 0.0)
    assert c == pytest.approx(0.3 / 2.05)


def test_relative_errors_serve_short_prompts() -> None:
    tokens = np.array([1, 10, 100, 1000, 10000])
    times_s = 1e-3 + 1e-4 * tokens * np.array([1, 1, 1, 1, 1.05])
    plain, relative = (
        np.abs(np.polyval(found, tokens) / times_s - 1).mean()
        for found in (np.polyfit(tokens, times_s, 2), fit_prefill(tokens, times_s))
    )
    assert relative < plain
    with pytest.raises(ConfigurationError, match='expected more than 0'):
        fit_decode([1, 2], [0.0, 1.0])


def test_a_margin_covers_what_it_says() -> None:
    rng = np.random.default_rng(1)
    misses = 0
    for _ in range(400):
        measured = rng.lognormal(0, 0.3, 99)
        factor = coverage_factor(measured, np.ones(99), 0.9)
        misses += rng.lognormal(0, 0.3) > factor
    # 400 draws of at most 0.1 each: more than 64 would be a chance of 1 in 1e4.
    assert misses <= 64


def test_a_margin_needs_measurements() -> None:
    assert coverage_factor(np.linspace(1, 2, 99), np.ones(99), 0.99) == 2.0
    assert coverage_factor([0.5] * 20, [1.0] * 20, 0.9) == 1.0
    with pytest.raises(ConfigurationError, match=r'98 measurements .* at least 99'):
        coverage_factor(np.ones(98), np.ones(98), 0.99)
    with pytest.raises(ConfigurationError, match=r'coverage 1\.0'):
        coverage_factor([1.0], [1.0], 1.0)
    with pytest.raises(ConfigurationError, match='more than 0'):
        coverage_factor([1.0], [0.0], 0.5)
