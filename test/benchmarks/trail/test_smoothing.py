from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from benchmarks.trail.smoothing import after_token, smooth, transition
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.lengths import LengthBins

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
    after = smooth(BINS, before, answer, absorbing=absorbing)
    assert (after >= 0).all()
    assert after.sum(axis=-1) == pytest.approx(1)
    lengths = BINS.expected(after)
    assert ((lengths >= 25.6 - 1e-9) & (lengths <= 486.4 + 1e-9)).all()


@given(rows(4), rows(4))
def test_generations_do_not_mix(before: np.ndarray, answer: np.ndarray) -> None:
    together = smooth(BINS, before, answer)
    alone = [smooth(BINS, q, p) for q, p in zip(before, answer, strict=True)]
    assert together == pytest.approx(np.stack(alone))


@given(rows(1))
def test_an_answer_that_says_nothing_leaves_the_prior(before: np.ndarray) -> None:
    after = smooth(BINS, before, np.full_like(before, 0.1))
    prior = after_token(BINS, before)
    assert after == pytest.approx(prior / prior.sum())


@given(rows(2), st.booleans())
def test_a_token_is_the_matrix(before: np.ndarray, absorbing: bool) -> None:
    matrix = transition(BINS, absorbing=absorbing)
    assert after_token(BINS, before, absorbing=absorbing) == pytest.approx(before @ matrix.T)
    assert after_token(BINS, before, absorbing=True).sum(axis=-1) == pytest.approx(1)


@given(rows(1))
def test_lengths_shrink_with_every_token(before: np.ndarray) -> None:
    after = after_token(BINS, before, absorbing=True)
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
    assert transition(bins) == pytest.approx(counted)


def test_evidence_is_kept() -> None:
    """Ten sure answers, then one that says nothing: the paper's step 2 would forget the ten."""
    sure = np.full(10, 0.01)
    sure[3] = 0.91
    posterior = sure
    for _ in range(10):
        posterior = smooth(BINS, posterior, sure)
    posterior = smooth(BINS, posterior, np.full(10, 0.1))
    assert posterior[3] > 0.95


def test_a_contradiction_is_settled_by_the_newer_answer() -> None:
    before, answer = np.eye(10)[9], np.eye(10)[2]
    assert smooth(BINS, before, answer).tolist() == answer.tolist()
    both = smooth(BINS, np.stack([before, before]), np.stack([answer, before]))
    assert both.tolist() == [answer.tolist(), before.tolist()]


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
        smooth(BINS, np.full(10, 0.1), answer)
