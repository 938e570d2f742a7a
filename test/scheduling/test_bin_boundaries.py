from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.golden import golden

from benchmarks.multibin.theory import sample_service
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.scheduling import bin_boundaries as cut

GOLDEN = golden('golden_multibin.json')

LENGTHS = st.floats(-1e6, 1e6).map(lambda length: round(length, 3))
"""Between neighbouring floats there is no room for a boundary."""


@pytest.mark.parametrize('case', GOLDEN['bins_exponential'])
def test_golden_exponential(case: Any) -> None:
    given = case['inputs']
    edges = cut.exponential_boundaries(given['mu'], given['B'], given['k'])
    assert edges[1:-1].tolist() == pytest.approx(case['expected'], rel=case['tol'])
    assert (edges[0], edges[-1]) == (0.0, math.inf)


def exact_mean(lengths: list[float], edges: Any, batch: int) -> float:
    """By enumeration of all batches that can be drawn from each bin."""
    total = 0.0
    inner = np.asarray(edges)[1:-1]
    bins = np.searchsorted(inner, lengths, side='right')
    for number in set(bins.tolist()):
        inside = [x for x, place in zip(lengths, bins, strict=True) if place == number]
        drawn = list(itertools.product(inside, repeat=batch))
        total += len(inside) / len(lengths) * sum(map(max, drawn)) / len(drawn)
    return total


samples = st.lists(st.integers(0, 12).map(float), min_size=1, max_size=6)


@given(samples, st.integers(1, 4), st.data())
@examples(60)
def test_the_optimum_is_the_best_of_all_boundaries(
    lengths: list[float], batch: int, data: st.DataObject
) -> None:
    values = sorted(set(lengths))
    bins = data.draw(st.integers(1, len(values)))
    best = cut.optimal_boundaries(lengths, bins, batch)
    assert len(best) == bins + 1
    assert (np.diff(best) > 0).all()
    found = exact_mean(lengths, best, batch)
    assert found == pytest.approx(sample_service(lengths, best, batch))
    for inner in itertools.combinations(values[1:], bins - 1):
        assert found <= exact_mean(lengths, [values[0], *inner, values[-1]], batch) + 1e-9


@given(
    st.lists(LENGTHS, min_size=1, max_size=40),
    st.integers(1, 8),
    st.integers(1, 200),
)
def test_boundaries_increase_and_more_bins_never_cost(
    lengths: list[float], bins: int, batch: int
) -> None:
    bins = min(bins, len(set(lengths)))
    equal = cut.equal_mass_boundaries(lengths, bins)
    best = cut.optimal_boundaries(lengths, bins, batch)
    for edges in (equal, best):
        assert len(edges) == bins + 1
        assert (np.diff(edges) > 0).all()
        assert edges[0] == min(lengths)
        assert edges[-1] >= max(lengths)
    cost = sample_service(lengths, best, batch)
    assert cost <= sample_service(lengths, equal, batch) + 1e-6
    if bins > 1:
        fewer = cut.optimal_boundaries(lengths, bins - 1, batch)
        assert cost <= sample_service(lengths, fewer, batch) + 1e-6


def test_equal_mass_is_equal_where_it_can_be() -> None:
    edges = cut.equal_mass_boundaries(range(100), 4)
    assert np.histogram(range(100), edges)[0].tolist() == [25, 25, 25, 25]
    # Half of all lengths are one and the same: it must have a bin of its own.
    edges = cut.equal_mass_boundaries([1.0] * 50 + list(range(2, 52)), 3)
    assert np.histogram([1.0] * 50 + list(range(2, 52)), edges)[0][0] >= 50


def test_on_uniform_lengths_the_optimum_is_equal_widths() -> None:
    lengths = np.linspace(1, 20, 2000)
    edges = cut.optimal_boundaries(lengths, 4, 128, candidates=200)
    assert edges == pytest.approx(np.linspace(1, 20, 5), abs=0.15)


def test_coarse_candidates_still_give_every_bin() -> None:
    lengths = [0.0] * 100_000 + list(range(1, 60))
    edges = cut.optimal_boundaries(lengths, 20, 8, candidates=20)
    assert len(edges) == 21
    assert (np.diff(edges) > 0).all()


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda: cut.exponential_boundaries(0.0, 8, 2), 'rate 0.0'),
        (lambda: cut.exponential_boundaries(1.0, 8, 0), 'bins 0'),
        (lambda: cut.equal_mass_boundaries([1, 1, 2], 3), r'3 bins.*2 distinct'),
        (lambda: cut.equal_mass_boundaries([1, math.nan], 1), 'length nan'),
        (lambda: cut.optimal_boundaries([1, 2, 3], 3, 8, candidates=2), 'candidates 2'),
        (lambda: cut.optimal_boundaries([1, 2, 3], 3, 0), 'batch 0'),
    ],
)
def test_refused(call: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        call()
