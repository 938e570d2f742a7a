"""Multi-bin batching under load, against the theory and the reference simulations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.golden import golden

from benchmarks.multibin.static_batches import (
    Batches,
    bins_with_errors,
    end_times_s,
    form_batches,
    poisson_arrivals_s,
    run_batches,
)
from benchmarks.multibin.theory import uniform_boundaries
from timely_llm_ros.scheduling import exponential_boundaries

GOLDEN = golden('golden_multibin.json')


def formed(seed: int, per_s: float, edges: Any, batch: int, rate: float | None = None) -> Batches:
    rng = np.random.default_rng(seed)
    count = 128_000 if rate is None else 200_000
    arrival_s = poisson_arrivals_s(rng, per_s, count)
    service_s = (
        rng.uniform(edges[0], edges[-1], count)
        if rate is None
        else rng.exponential(1 / rate, count)
    )
    bins = np.searchsorted(edges[1:-1], service_s, side='right')
    return form_batches(arrival_s, service_s, bins, batch)


def agree(got: float, case: Any) -> bool:
    expected = case['expected']
    return bool(abs(got - expected) <= case['tol'] * max(1.0, abs(got), abs(expected)))


def uniform(given: Any, seed: int = 0) -> Batches:
    edges = uniform_boundaries(given['l_min'], given['l_max'], given['k'])
    return formed(seed, given['lam'], edges, given['B'])


@pytest.mark.parametrize('case', GOLDEN['sim_throughput_uniform'])
def test_golden_throughput(case: Any) -> None:
    assert agree(run_batches(uniform(case['inputs'])).throughput_per_s, case)


@pytest.mark.parametrize('case', GOLDEN['sim_latency_one_server'])
def test_golden_latency_one_server(case: Any) -> None:
    assert agree(run_batches(uniform(case['inputs'])).latency_s, case)


@pytest.mark.parametrize('case', GOLDEN['sim_latency_infinite_servers'])
def test_golden_latency_infinite_servers(case: Any) -> None:
    assert agree(run_batches(uniform(case['inputs']), servers=None).latency_s, case)


@pytest.mark.parametrize('case', GOLDEN['sim_throughput_exponential'])
def test_golden_throughput_exponential(case: Any) -> None:
    given = case['inputs']
    edges = exponential_boundaries(0.1, 200, given['k'])
    # One draw of exponential times scatters by 0.8 %.
    runs = [run_batches(formed(seed, given['lam'], edges, 200, 0.1)) for seed in range(4)]
    assert agree(float(np.mean([run.throughput_per_s for run in runs])), case)


def test_servers_take_batches_in_order() -> None:
    batches = Batches(
        np.array([0.0, 1.0, 1.0, 20.0]),
        np.array([5.0, 2.0, 4.0, 1.0]),
        np.array([2, 2, 2, 1]),
        np.zeros(4),
    )
    assert end_times_s(batches).tolist() == [5, 7, 11, 21]
    assert end_times_s(batches, 2).tolist() == [5, 3, 7, 21]
    assert end_times_s(batches, None).tolist() == [5, 3, 5, 21]


def test_errors_go_to_neighbours_only_and_keep_the_bins_equally_full() -> None:
    rng = np.random.default_rng(0)
    right = np.repeat(np.arange(4), 50_000)
    moved = bins_with_errors(rng, right, 4, 0.2)
    assert np.abs(moved - right).max() == 1
    assert (moved[right == 1] == 0).mean() == pytest.approx(0.2, abs=0.01)
    assert (moved[right == 3] != 3).mean() == pytest.approx(0.2, abs=0.01)
    assert np.bincount(moved) == pytest.approx(np.full(4, 50_000), rel=0.02)
    assert (bins_with_errors(rng, np.zeros(10, np.int64), 1, 0.5) == 0).all()
