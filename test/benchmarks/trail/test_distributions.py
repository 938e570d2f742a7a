"""Readings of the filter over lengths, against its rows summed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from benchmarks.trail.distributions import binned, left_at_most
from timely_llm_ros.prediction.lengths.length_bins import LengthBins
from timely_llm_ros.prediction.lengths.length_filter import LengthFilter

SEEDS = st.integers(0, 2**31)
BINS = LengthBins(5, 20)


def rows(seed: int, age: int) -> np.ndarray:
    """Return one row of a plan that runs at that age."""
    rng = np.random.default_rng(seed)
    one = LengthFilter(BINS, rng.dirichlet(np.ones(5)) + 0.01, 1.0, divides=False)
    return one.running(rng.dirichlet(np.full(one.longest, 0.3))[None], [age])


@examples(50)
@given(SEEDS, st.integers(1, 50))
def test_bins_have_the_shares_of_their_lengths(seed: int, age: int) -> None:
    shares = rows(seed, age)
    spread = binned(BINS, shares, [age])[0]
    assert spread.sum() == pytest.approx(1)
    for place in range(BINS.count):
        there = BINS.index(np.arange(1, shares.shape[1] - age + 1)) == place
        assert spread[place] == pytest.approx(shares[0, age:][there].sum(), abs=1e-9)


@examples(50)
@given(SEEDS, st.integers(1, 50), st.floats(0.01, 1.0))
def test_quantiles_hold_as_often_as_they_say(seed: int, age: int, share: float) -> None:
    shares = rows(seed, age)
    left = left_at_most(shares, [age], share)[0]
    length = int(left) + age
    assert shares[0, :length].sum() >= share * (1 - 1e-6)
    assert shares[0, : length - 1].sum() < share or left == 1
