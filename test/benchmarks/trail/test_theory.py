"""The corrected lemma against a simulation of the queue, and the simulation against itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.golden import golden

from benchmarks.trail.theory.job_models import ExponentialPredictor, JobModel, PerfectPredictor
from benchmarks.trail.theory.quadrature import running_integral
from benchmarks.trail.theory.queue_simulation import QueueRun, simulate_queue
from benchmarks.trail.theory.queueing import LimitedPreemption, fcfs_mean_response
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = golden('golden_trail.json')
MODELS: dict[str, JobModel] = {
    'perfect': PerfectPredictor(),
    'exponential': ExponentialPredictor(),
}
JOBS = 80_000


def simulated(predictor: str, rate: float, share: float, *, even: bool = False) -> QueueRun:
    """Serve random jobs; ``even`` draws one value from each of as many equally likely ranges.

    Then what is drawn has the right mean and variance, and only its order is left to chance.
    """
    rng = np.random.default_rng(7)

    def exponential() -> np.ndarray:
        if even:
            return -np.log1p(-(rng.permutation(JOBS) + rng.random(JOBS)) / JOBS)
        return rng.exponential(1.0, JOBS)

    arrivals, sizes = np.cumsum(exponential() / rate), exponential()
    predicted = sizes if predictor == 'perfect' else sizes * exponential()
    return simulate_queue(arrivals, sizes, predicted, share)


def standard_error(responses: np.ndarray) -> float:
    """Of the mean: responses of neighbours depend on each other, means of 60 stretches hardly."""
    means = responses[: len(responses) // 60 * 60].reshape(60, -1).mean(axis=1)
    return float(means.std(ddof=1) / 60**0.5)


# Where the printed lemma is furthest off, in both directions.
CASES = [('perfect', 0.5, 1.0), ('perfect', 0.7, 0.2), ('exponential', 0.5, 0.2),
         ('exponential', 0.7, 1.0)]  # fmt: skip


@pytest.mark.parametrize(('predictor', 'rate', 'share'), CASES)
def test_the_corrected_lemma_is_what_happens_and_the_printed_one_is_not(
    predictor: str, rate: float, share: float
) -> None:
    run = simulated(predictor, rate, share)
    mean, error = float(run.responses.mean()), standard_error(run.responses)
    queue = LimitedPreemption(rate, share, MODELS[predictor])
    assert abs(mean - queue.mean_response()) < 4 * error
    (printed,) = (
        case['expected']
        for case in GOLDEN['mean_response_printed_ERRATUM']
        if case['inputs'] == {'pred': predictor, 'lam': rate, 'C': share}
    )
    assert abs(mean - printed) > 4 * error
    assert run.mean_memory == pytest.approx(queue.mean_memory(), rel=0.02)


@pytest.mark.parametrize(
    'case', [case for case in GOLDEN['sim_mean_memory'] if case['inputs']['lam'] <= 0.7]
)
def test_simulated_memory(case: dict[str, Any]) -> None:
    given = case['inputs']
    run = simulated(given['pred'], given['lam'], given['C'], even=True)
    assert run.mean_memory == pytest.approx(case['expected'], rel=case['tol'])


@pytest.mark.parametrize('predictor', MODELS)
@pytest.mark.parametrize('rate', [0.5, 0.9])
def test_more_preemption_answers_sooner_and_holds_more(predictor: str, rate: float) -> None:
    queues = [LimitedPreemption(rate, c, MODELS[predictor]) for c in (0.0, 0.2, 0.5, 0.8, 1.0)]
    responses = [queue.mean_response() for queue in queues]
    memory = [queue.mean_memory() for queue in queues]
    assert responses == sorted(responses, reverse=True)
    assert memory == sorted(memory)
    assert responses[0] < fcfs_mean_response(rate)
    # Without preemption one job at a time holds memory: E[x^2] / 2 of each.
    assert memory[0] == pytest.approx(rate, rel=1e-6)


@pytest.mark.parametrize('predictor', MODELS)
def test_lemma_in_a_small_box(predictor: str) -> None:
    """Jobs of about one size and prediction: their own mean response, not only everybody's."""
    rng = np.random.default_rng(3)
    rate, share = 0.7, 0.5
    arrivals = np.cumsum(rng.exponential(1 / rate, JOBS))
    sizes = rng.exponential(1.0, JOBS)
    predicted = sizes if predictor == 'perfect' else sizes * rng.exponential(1.0, JOBS)
    run = simulate_queue(arrivals, sizes, predicted, share)
    queue = LimitedPreemption(rate, share, MODELS[predictor])
    for low, high in ((0.2, 0.5), (0.5, 1.0), (1.0, 2.0)):
        box = (sizes > low) & (sizes < high) & (predicted > low) & (predicted < high)
        expected = queue.response(sizes[box], predicted[box])
        error = float(run.responses[box].std()) / int(box.sum()) ** 0.5
        assert abs(float(run.responses[box].mean() - expected.mean())) < 5 * error


# Properties of the simulation

jobs = st.lists(
    st.tuples(st.floats(0, 3), st.floats(0.01, 5), st.floats(0.01, 5)), min_size=1, max_size=30
)


@given(jobs, st.floats(0, 1))
def test_work_is_conserved(work: list[tuple[float, float, float]], share: float) -> None:
    gaps, sizes, predicted = (np.array(part) for part in zip(*work, strict=True))
    arrivals = np.cumsum(gaps)
    run = simulate_queue(arrivals, sizes, predicted, share)
    assert (run.responses >= sizes - 1e-9).all()
    # The server is busy whenever there is work, whoever is served: it ends as with FCFS.
    end = 0.0
    for arrival, size in zip(arrivals.tolist(), sizes.tolist(), strict=True):
        end = max(end, arrival) + size
    assert run.end == pytest.approx(end)
    assert run.peak_memory <= sizes.sum() + 1e-9
    if share == 0:
        assert run.preemptions == 0
        held = float((sizes**2).sum() / 2 / run.end)
        assert run.mean_memory == pytest.approx(held)


def test_a_timeline_by_hand() -> None:
    """A job of 10 is preempted at age 2, not at age 6, which is past its limit of 5."""
    run = simulate_queue([0, 2, 7], [10, 1, 1], [10, 1, 1], 0.5)
    assert run.responses.tolist() == [11, 1, 5]
    assert run.preemptions == 1
    # SRPT would preempt it again.
    assert simulate_queue([0, 2, 7], [10, 1, 1], [10, 1, 1], 1.0).responses.tolist() == [12, 1, 1]
    # The waiting job's age of 2 stays in memory while another has its turn.
    assert run.mean_memory == pytest.approx((2 + 2 * 1 + 0.5 + (10**2 - 2**2) / 2 + 0.5) / 12)
    assert run.peak_memory == 10


def test_equal_ranks_are_served_in_order() -> None:
    run = simulate_queue([0, 0, 0], [1, 1, 1], [1, 1, 1], 1.0)
    assert run.responses.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda: simulate_queue([], [], [], 0.5), '0 arrivals'),
        (lambda: simulate_queue([0.0], [1.0, 2.0], [1.0], 0.5), '1 arrivals, 2 sizes'),
        (lambda: simulate_queue([0.0], [1.0], [1.0], 1.5), r'share 1\.5'),
        (lambda: LimitedPreemption(1.0, 0.5, PerfectPredictor()), r'arrival rate 1\.0'),
        (lambda: LimitedPreemption(0.5, -0.1, PerfectPredictor()), r'share -0\.1'),
        (lambda: fcfs_mean_response(1.0), r'arrival rate 1\.0'),
    ],
)
def test_wrong_values_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        call()


def test_a_running_integral_goes_on_beyond_its_grid() -> None:
    integral = running_integral(lambda t: 1 + t, 4.0)
    assert integral([0.0, 1.0, 4.0, 6.0]) == pytest.approx([0.0, 1.5, 12.0, 22.0])
