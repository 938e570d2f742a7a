from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.golden import golden

from benchmarks.multibin import theory
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.scheduling import (
    equal_mass_boundaries,
    exponential_boundaries,
    exponential_factor,
    harmonic,
    optimal_boundaries,
)

GOLDEN = golden('golden_multibin.json')


def agree(got: float, case: Any) -> bool:
    expected = case['expected']
    return bool(abs(got - expected) <= case['tol'] * max(1.0, abs(got), abs(expected)))


def span(given: Any) -> tuple[float, float, int]:
    return given['l_min'], given['l_max'], given['B']


@pytest.mark.parametrize('case', GOLDEN['emax_uniform'] + GOLDEN['emax_uniform_mc'])
def test_mean_of_the_largest(case: Any) -> None:
    given = case['inputs']
    assert agree(theory.expected_longest_s(given['a'], given['b'], given['B']), case)


@pytest.mark.parametrize('case', GOLDEN['emin_uniform_is_eq8'])
def test_equation_8_as_printed_is_the_mean_of_the_smallest(case: Any) -> None:
    given = case['inputs']
    largest = theory.expected_longest_s(given['a'], given['b'], given['B'])
    assert not agree(largest, case)
    assert agree(given['a'] + given['b'] - largest, case), 'by symmetry'


@pytest.mark.parametrize('case', GOLDEN['throughput_uniform'])
def test_throughput(case: Any) -> None:
    given = case['inputs']
    assert agree(theory.uniform_throughput(*span(given), given['k']), case)


@pytest.mark.parametrize('case', GOLDEN['c_max'])
def test_capacity(case: Any) -> None:
    assert agree(theory.uniform_capacity(*span(case['inputs'])), case)


@pytest.mark.parametrize('case', GOLDEN['k_for_eps'])
def test_bins_for_a_gap(case: Any) -> None:
    given = case['inputs']
    bins = theory.bins_for_gap(*span(given), given['eps'])
    assert bins == case['expected']
    capacity = theory.uniform_capacity(*span(given))
    enough = capacity - given['eps'] - 1e-12
    assert theory.uniform_throughput(*span(given), bins) >= enough
    assert bins == 1 or theory.uniform_throughput(*span(given), bins - 1) < enough


@pytest.mark.parametrize('case', GOLDEN['latency_uniform'])
def test_latency(case: Any) -> None:
    given = case['inputs']
    assert agree(theory.uniform_latency_s(*span(given), given['k'], given['lam']), case)


@pytest.mark.parametrize('case', GOLDEN['gain_over_k1'])
def test_gain(case: Any) -> None:
    given = case['inputs']
    one = theory.uniform_throughput(*span(given), 1)
    assert agree(theory.uniform_throughput(*span(given), given['k']) / one, case)


@pytest.mark.parametrize('case', GOLDEN['eq10_swapped_is_concave'])
def test_equation_10_as_printed_would_be_greatest_at_equal_bins(case: Any) -> None:
    given = case['inputs']
    equal = theory.uniform_boundaries(given['l_min'], given['l_max'], given['k'])
    shifted = equal.copy()
    shifted[1] += given['shift']
    shifted[2] -= given['shift']
    rise = theory.binned_service_s(shifted, given['B']) - theory.binned_service_s(equal, given['B'])
    assert rise > 0, 'with the right weights equal bins are the best'
    # The smallest and the largest of a bin add up to its two ends, which do not depend on the cut.
    ends = [np.sum(np.diff(edges) * (edges[:-1] + edges[1:])) for edges in (equal, shifted)]
    assert ends[0] == pytest.approx(ends[1])
    assert agree(rise, case)


@pytest.mark.parametrize('case', GOLDEN['hessian_det_uniform'])
def test_hessian(case: Any) -> None:
    given = case['inputs']
    hessian = theory.service_hessian(*span(given), given['k'])
    assert agree(float(np.linalg.det(hessian)), case)
    edges = theory.uniform_boundaries(given['l_min'], given['l_max'], given['k'])
    step = 1e-3
    unit = np.eye(given['k'] + 1)[1:-1] * step
    for row, one in zip(hessian, unit, strict=True):
        for value, other in zip(row, unit, strict=True):
            corners = [
                theory.binned_service_s(edges + a * one + b * other, given['B'])
                for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))
            ]
            second = (corners[0] - corners[1] - corners[2] + corners[3]) / (4 * step**2)
            assert second == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize('case', GOLDEN['harmonic'])
def test_harmonic(case: Any) -> None:
    assert agree(harmonic(case['inputs']['B']), case)


@pytest.mark.parametrize('case', GOLDEN['L_m'])
def test_exponential_factor(case: Any) -> None:
    assert agree(exponential_factor(case['inputs']['B'], case['inputs']['m']), case)


def eq_27(boundaries: Any, rate: float, batch: int) -> float:
    """The bound itself: all of a bin's batches take as long as its upper end says."""
    mass = np.diff(1 - np.exp(-rate * np.asarray(boundaries)))
    upper = [*boundaries[1:-1], boundaries[-2] + harmonic(batch) / rate]
    return float(mass @ upper)


@pytest.mark.parametrize('case', GOLDEN['bound_exponential'])
def test_exponential_bound_is_equation_27_at_the_lemmas_boundaries(case: Any) -> None:
    given = case['inputs']
    rate, batch, bins = given['mu'], given['B'], given['k']
    assert agree(theory.exponential_service_bound_s(rate, batch, bins), case)
    assert agree(eq_27(exponential_boundaries(rate, batch, bins), rate, batch), case)


@pytest.mark.parametrize('case', GOLDEN['throughput_lb_exponential'])
def test_exponential_throughput_bound(case: Any) -> None:
    given = case['inputs']
    rate, batch, bins = given['mu'], given['B'], given['k']
    assert agree(theory.exponential_throughput_bound(rate, batch, bins), case)


@pytest.mark.parametrize('case', GOLDEN['exact_service_exponential'])
def test_exact_exponential_service(case: Any) -> None:
    given = case['inputs']
    rate, batch, bins = given['mu'], given['B'], given['k']
    edges = exponential_boundaries(rate, batch, bins)
    exact = theory.exponential_service_s(edges, rate, batch)
    assert agree(exact, case)
    bound = theory.exponential_service_bound_s(rate, batch, bins)
    assert 0.99 * bound <= exact <= bound + 1e-9


@pytest.mark.parametrize('case', GOLDEN['throughput_error_model'])
def test_throughput_with_errors(case: Any) -> None:
    given = case['inputs']
    service_s = theory.error_service_s(*span(given), given['k'], given['p_e'])
    assert agree(given['B'] / service_s, case)


@pytest.mark.parametrize('case', GOLDEN['p_e_from_accuracy'])
def test_error_from_accuracy(case: Any) -> None:
    given = case['inputs']
    assert agree(theory.error_chance(given['accuracy'], given['k']), case)


@pytest.mark.parametrize('case', GOLDEN['bins_uniform'])
def test_golden_uniform(case: Any) -> None:
    given = case['inputs']
    edges = theory.uniform_boundaries(given['l_min'], given['l_max'], given['k'])
    assert edges.tolist() == pytest.approx(case['expected'], rel=case['tol'])


@pytest.mark.parametrize('case', GOLDEN['bins_uniform_optimal'])
def test_golden_uniform_optimum(case: Any) -> None:
    given = case['inputs']
    edges = theory.uniform_boundaries(given['l_min'], given['l_max'], given['k'])
    assert edges[1:-1].tolist() == pytest.approx(case['expected'], rel=case['tol'])
    best = theory.binned_service_s(edges, given['B'])
    rng = np.random.default_rng(0)
    for _ in range(100):
        other = edges.copy()
        other[1:-1] = np.sort(rng.uniform(given['l_min'], given['l_max'], given['k'] - 1))
        assert theory.binned_service_s(other, given['B']) >= best


def test_on_exponential_lengths_the_optimum_beats_equal_masses_as_the_lemma_says() -> None:
    rate, batch = 0.1, 200
    quantiles = -np.log1p(-(np.arange(4000) + 0.5) / 4000) / rate
    for bins in (2, 4):
        best = optimal_boundaries(quantiles, bins, batch, candidates=400)
        ends = [0.0, *best[1:-1], math.inf]
        lemma = theory.exponential_service_s(exponential_boundaries(rate, batch, bins), rate, batch)
        assert theory.exponential_service_s(ends, rate, batch) == pytest.approx(lemma, rel=0.01)
        equal = equal_mass_boundaries(quantiles, bins)
        masses = theory.exponential_service_s([0.0, *equal[1:-1], math.inf], rate, batch)
        assert lemma < 0.77 * masses


@given(st.integers(1, 300), st.integers(2, 40), st.floats(0, 100), st.floats(0.1, 100))
def test_no_errors_and_no_boundary_error_are_the_closed_form(
    batch: int, bins: int, shortest: float, width: float
) -> None:
    longest = shortest + width
    closed = theory.uniform_service_s(shortest, longest, batch, bins)
    edges = theory.uniform_boundaries(shortest, longest, bins)
    assert theory.binned_service_s(edges, batch) == pytest.approx(closed)
    assert theory.error_service_s(shortest, longest, batch, bins, 0.0) == pytest.approx(closed)


@given(st.integers(1, 300), st.integers(1, 40), st.floats(0, 0.5))
def test_errors_cost_and_never_more_than_having_no_bins(
    batch: int, bins: int, error: float
) -> None:
    right = theory.error_service_s(1, 20, batch, bins, 0.0)
    wrong = theory.error_service_s(1, 20, batch, bins, error)
    none = theory.error_service_s(1, 20, batch, 1, 0.0)
    assert right - 1e-9 <= wrong <= none + 1e-9


def test_a_tiny_chance_of_errors_changes_hardly_anything() -> None:
    right = theory.error_service_s(1, 20, 8, 4, 0.0)
    for error in (1e-300, 1e-17, 1e-12):
        assert theory.error_service_s(1, 20, 8, 4, error) == pytest.approx(right, rel=1e-9)


def test_exponential_service_against_an_independent_sum() -> None:
    # E[max] of a truncated exponential as a power series of its distribution function.
    rate, batch, cut = 0.3, 7, 2.5
    w = 1 - math.exp(-rate * cut)
    series = sum(w**n / n * batch / (batch + n) for n in range(1, 400)) / rate
    expected = w * series + (1 - w) * (cut + harmonic(batch) / rate)
    edges = [0.0, cut, math.inf]
    assert theory.exponential_service_s(edges, rate, batch) == pytest.approx(expected, rel=1e-12)


def test_carried_throughput_is_what_comes_or_what_can_be_served() -> None:
    assert theory.carried_throughput(4.0, 6.4) == 4.0
    assert theory.carried_throughput(8.0, 6.4) == 6.4


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda: theory.uniform_boundaries(5, 5, 2), 'lengths 5 to 5'),
        (lambda: theory.uniform_boundaries(1, math.inf, 2), 'to inf'),
        (lambda: theory.expected_longest_s(1, 2, 0), 'batch 0'),
        (lambda: theory.uniform_service_s(1, 2, 8, 0), 'bins 0'),
        (lambda: theory.bins_for_gap(1, 20, 128, 0.0), 'gap 0.0'),
        (lambda: theory.bins_for_gap(1, 20, 128, math.nan), 'gap nan'),
        (lambda: theory.uniform_latency_s(1, 20, 128, 2, -1.0), 'arrivals -1.0'),
        (lambda: theory.error_service_s(1, 20, 128, 2, 0.6), 'error 0.6'),
        (lambda: theory.error_chance(0.9, 1), 'bins 1'),
        (lambda: theory.error_chance(1.9, 2), 'accuracy 1.9'),
    ],
)
def test_refused(call: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        call()
