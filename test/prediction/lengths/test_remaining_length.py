from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.lengths.remaining_length import LengthBins
from timely_llm_ros.scheduling.preemption import limited_preemption_rank, preemption_limit

BINS = LengthBins()
masses = st.one_of(st.just(0.0), st.floats(1e-6, 1))


def rows(count: int) -> st.SearchStrategy[np.ndarray]:
    return arrays.arrays(float, (count, 10), elements=masses).filter(
        lambda array: bool((array.sum(axis=1) > 0).all())
    ).map(lambda array: array / array.sum(axis=1, keepdims=True))  # fmt: skip


@given(rows(3), rows(3), st.booleans())
def test_the_posterior_is_a_distribution(
    before: np.ndarray, answer: np.ndarray, absorbing: bool
) -> None:
    after = BINS.smooth(before, answer, absorbing=absorbing)
    assert (after >= 0).all()
    assert after.sum(axis=-1) == pytest.approx(1)
    lengths = BINS.expected(after)
    assert ((lengths >= 25.6 - 1e-9) & (lengths <= 486.4 + 1e-9)).all()


@given(rows(4), rows(4))
def test_generations_do_not_mix(before: np.ndarray, answer: np.ndarray) -> None:
    together = BINS.smooth(before, answer)
    alone = [BINS.smooth(q, p) for q, p in zip(before, answer, strict=True)]
    assert together == pytest.approx(np.stack(alone))


@given(rows(1))
def test_an_answer_that_says_nothing_leaves_the_prior(before: np.ndarray) -> None:
    after = BINS.smooth(before, np.full_like(before, 0.1))
    prior = BINS.after_token(before)
    assert after == pytest.approx(prior / prior.sum())


@given(rows(2), st.booleans())
def test_a_token_is_the_matrix(before: np.ndarray, absorbing: bool) -> None:
    matrix = BINS.transition(absorbing=absorbing)
    assert BINS.after_token(before, absorbing=absorbing) == pytest.approx(before @ matrix.T)
    assert BINS.after_token(before, absorbing=True).sum(axis=-1) == pytest.approx(1)


@given(rows(1))
def test_lengths_shrink_with_every_token(before: np.ndarray) -> None:
    after = BINS.after_token(before, absorbing=True)
    assert BINS.expected(after) <= BINS.expected(before) + 1e-9
    drift = BINS.expected(after) - BINS.expected(before)
    assert drift == pytest.approx(-(1 - before[:, 0]))


def test_the_matrix_is_that_of_lengths_minus_one() -> None:
    bins = LengthBins(4, 32)
    counted = np.zeros((4, 4))
    # Lengths k w + 1 to (k + 1) w, of which w - 1 stay in the bin and one leaves it downwards.
    for length in range(1, 33):
        before, after = (length - 1) // 8, (length - 2) // 8
        if after >= 0:
            counted[after, before] += 1 / 8
    assert bins.transition() == pytest.approx(counted)


def test_evidence_is_kept() -> None:
    """Ten sure answers, then one that says nothing: the paper's step 2 would forget the ten."""
    sure = np.full(10, 0.01)
    sure[3] = 0.91
    posterior = sure
    for _ in range(10):
        posterior = BINS.smooth(posterior, sure)
    posterior = BINS.smooth(posterior, np.full(10, 0.1))
    assert posterior[3] > 0.95


def test_a_contradiction_is_settled_by_the_newer_answer() -> None:
    before, answer = np.eye(10)[9], np.eye(10)[2]
    assert BINS.smooth(before, answer).tolist() == answer.tolist()
    both = BINS.smooth(np.stack([before, before]), np.stack([answer, before]))
    assert both.tolist() == [answer.tolist(), before.tolist()]


def test_quantiles_are_upper_edges() -> None:
    mass = np.array([[0.5, 0.3, 0.2] + [0.0] * 7, [0.0] * 9 + [1.0]])
    assert BINS.quantile(mass, 0.5) == pytest.approx([51.2, 512])
    assert BINS.quantile(mass, 0.8) == pytest.approx([102.4, 512])
    assert BINS.quantile(mass, 1.0) == pytest.approx([153.6, 512])
    with pytest.raises(ConfigurationError, match=r'share 0\.0'):
        BINS.quantile(mass, 0.0)


@pytest.mark.parametrize(
    ('answer', 'message'),
    [
        (np.full((2, 10), 0.1), r'expected rows of 10 bins'),
        (np.zeros(10), 'expected probabilities'),
        (np.array([-0.1, 1.1] + [0.0] * 8), 'expected probabilities'),
        (np.full(10, math.nan), 'expected probabilities'),
    ],
)
def test_answers_that_are_none(answer: np.ndarray, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        BINS.smooth(np.full(10, 0.1), answer)


def test_bins_that_cannot_be() -> None:
    with pytest.raises(ConfigurationError, match='0 bins'):
        LengthBins(0, 512)
    with pytest.raises(ConfigurationError, match='no more bins than tokens'):
        LengthBins(10, 9)
    with pytest.raises(ConfigurationError, match='remaining length -1'):
        BINS.index([3, -1])


# Limited preemption


@given(st.floats(0.1, 1000), st.floats(0, 1000), st.floats(0, 1))
def test_a_job_past_its_limit_outranks_all(predicted: float, age: float, share: float) -> None:
    rank = float(limited_preemption_rank(predicted, age, share))
    if age < share * predicted - 1e-6:
        assert rank == predicted - age
    elif age > share * predicted + 1e-6:
        assert rank == -math.inf


@given(st.floats(0, 1000), st.floats(0, 1))
def test_the_limit_is_within_the_prediction(predicted: float, share: float) -> None:
    assert 0 <= preemption_limit(predicted, share) <= predicted + 1e-9


def test_the_limit_in_tokens_is_not_off_by_a_last_bit() -> None:
    assert preemption_limit(25.0, 0.28) == 7
    with pytest.raises(ConfigurationError, match=r'share 1\.1'):
        limited_preemption_rank(10, 0, 1.1)
