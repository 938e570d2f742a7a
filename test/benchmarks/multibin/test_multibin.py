"""What the multi-bin benchmarks compare with, and how requests come into batches."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('matplotlib')
pytest.importorskip('torch')


from benchmarks.multibin import multibin, multibin_theory
from benchmarks.multibin.reference import EXPONENTIAL_PER_S, UNIFORM_ANY_LATENCY_S, UNIFORM_PER_S
from benchmarks.multibin.static_batches import run_batches


@pytest.mark.parametrize('bins', multibin_theory.UNIFORM_BINS)
def test_the_reference_with_uniform_times(bins: int) -> None:
    batches = multibin_theory.uniform(np.random.default_rng(5), bins)
    for per_s in multibin_theory.ARRIVALS:
        coming = multibin_theory.at_rate(batches, per_s)
        assert run_batches(coming).throughput_per_s == pytest.approx(
            UNIFORM_PER_S[per_s, bins], rel=0.015
        )
        assert run_batches(coming, None).latency_s == pytest.approx(
            UNIFORM_ANY_LATENCY_S[per_s, bins], rel=0.01
        )


def test_the_reference_with_exponential_times() -> None:
    found = {}
    for bins in multibin_theory.EXPONENTIAL_BINS:
        draws = [
            multibin_theory.exponential(np.random.default_rng(seed), bins) for seed in range(4)
        ]
        for per_s in (4, 8, 12):
            runs = [run_batches(multibin_theory.at_rate(one, per_s)) for one in draws]
            found[per_s, bins] = float(np.mean([run.throughput_per_s for run in runs]))
    assert found == pytest.approx({key: EXPONENTIAL_PER_S[key] for key in found}, rel=0.015)


def test_batches_hold_one_bin_and_everybody() -> None:
    lengths = multibin.draw_lengths(500, multibin.MEAN_TOKENS)
    bins = multibin.in_bins(lengths, [200, 204, 96])
    assert np.bincount(bins).tolist() == [200, 204, 96]
    order = multibin.batches(bins)
    assert sorted(number for batch in order for number in batch) == list(range(500))
    assert all(len({bins[number] for number in batch}) == 1 for batch in order)
    assert sum(len(batch) < multibin.BATCH for batch in order) == 1


def test_equally_full_bins_are_in_order() -> None:
    lengths = multibin.draw_lengths(512, multibin.MEAN_TOKENS)
    bins = multibin.in_bins(lengths, multibin.equal_sizes(512, 32))
    assert np.bincount(bins).tolist() == [16] * 32
    assert sorted(zip(lengths, bins, strict=True)) == sorted(
        zip(sorted(lengths), sorted(bins), strict=True)
    )


@pytest.mark.parametrize('bins', [2, 4, 8])
def test_optimal_bins_are_whole_batches_and_cost_no_more(bins: int) -> None:
    lengths = multibin.draw_lengths(768, multibin.MEAN_TOKENS)
    equal, optimal = multibin.equal_sizes(768, bins), multibin.optimal_sizes(lengths, bins)
    assert sum(optimal) == 768
    assert all(size % multibin.BATCH == 0 for size in optimal)
    assert multibin.service_tokens(lengths, optimal) < multibin.service_tokens(lengths, equal)


def test_lengths_spread_as_said() -> None:
    lengths = np.array(multibin.draw_lengths(20_000, multibin.MEAN_TOKENS))
    assert lengths.mean() == pytest.approx(multibin.MEAN_TOKENS, rel=0.02)
    assert lengths.std() / lengths.mean() == pytest.approx(multibin.VARIATION, rel=0.04)
