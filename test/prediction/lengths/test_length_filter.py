"""The filter over whole lengths against Bayes' rule, length by length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.lengths.length_bins import LengthBins
from timely_llm_ros.prediction.lengths.length_filter import DOUBT, FLOOR, LengthFilter
from timely_llm_ros.prediction.lengths.response_length import LengthDistribution

SEEDS = st.integers(0, 2**31)
SHARPNESSES = st.sampled_from([0.0, 0.05, 0.25, 1.0])
AGES = st.lists(st.integers(1, 60), min_size=1, max_size=6)


def a_filter(
    rng: np.random.Generator, sharpness: float, *, divides: bool = True, bins: int = 5
) -> LengthFilter:
    often = rng.dirichlet(np.ones(bins)) + 0.01
    return LengthFilter(LengthBins(bins, 20), often / often.sum(), sharpness, divides=divides)


def a_forecast(rng: np.random.Generator, size: int = 4) -> LengthDistribution:
    return LengthDistribution(tuple(rng.dirichlet(np.full(12, 0.3))), size)


def after(
    one: LengthFilter, shares: np.ndarray, ages: list[int], answers: np.ndarray
) -> np.ndarray:
    """Learn answers in turn, of one generation."""
    for age, answer in zip(ages, answers, strict=True):
        shares = one.refine(shares[None], [age], answer[None])[0][0]
    return shares


@examples(60)
@given(SEEDS, AGES, SHARPNESSES, st.booleans())
def test_it_is_bayes_rule_length_by_length(
    seed: int, ages: list[int], sharpness: float, divides: bool
) -> None:
    rng = np.random.default_rng(seed)
    often = rng.dirichlet(np.ones(5)) + 0.01
    bins = LengthBins(5, 20)
    one = LengthFilter(bins, often, sharpness, divides=divides)
    prior = one.prior(a_forecast(rng))
    answers = rng.dirichlet(np.ones(5), size=len(ages))
    expected = []
    for length, probability in enumerate(prior.tolist(), 1):
        for age, answer in zip(ages, answers, strict=True):
            left = length - age
            if left <= 0:
                probability = 0.0
                continue
            place = min(left * 5 // 20, 4)
            said = (1 - FLOOR) * float(answer[place]) + FLOOR * float(often[place])
            probability *= (said / (often[place] if divides else 1.0)) ** sharpness
        expected.append(probability)
    wanted = np.array(expected) / np.sum(expected)
    shares = after(one, prior, ages, answers)
    assert shares == pytest.approx(wanted, rel=1e-6, abs=1e-12)
    assert shares.sum() == pytest.approx(1)
    assert (shares[: max(ages)] == 0).all()
    left = one.left(shares[None], [max(ages)])[0]
    assert left == pytest.approx((wanted * np.arange(1, len(wanted) + 1)).sum() - max(ages))
    assert 1 - 1e-9 <= left <= one.longest


@examples(30)
@given(SEEDS, AGES)
def test_without_sharpness_only_the_prompt_counts_and_that_the_plan_runs(
    seed: int, ages: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    one = a_filter(rng, 0.0)
    prior = one.prior(a_forecast(rng))
    shares = after(one, prior, ages, rng.dirichlet(np.ones(5), size=len(ages)))
    wanted = np.where(one.lengths > max(ages), prior, 0.0)
    assert shares == pytest.approx(wanted / wanted.sum())
    assert one.running(prior[None], [max(ages)])[0] == pytest.approx(shares)


@examples(30)
@given(SEEDS, AGES, SHARPNESSES, st.data())
def test_the_order_of_what_is_learned_does_not_matter(
    seed: int, ages: list[int], sharpness: float, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    one, forecast = a_filter(rng, sharpness), a_forecast(rng)
    answers = rng.dirichlet(np.ones(5), size=len(ages))
    straight = after(one, one.told(one.start, forecast), ages, answers)
    assert one.told(one.start, forecast) == pytest.approx(one.prior(forecast))
    order = data.draw(st.permutations(range(len(ages))))
    prompt = data.draw(st.integers(0, len(ages)))
    first, rest = order[:prompt], order[prompt:]
    mixed = after(one, one.start, [ages[it] for it in first], answers[first])
    mixed = one.told(mixed, forecast)
    mixed = after(one, mixed, [ages[it] for it in rest], answers[rest])
    assert mixed == pytest.approx(straight, rel=1e-6, abs=1e-12)


@examples(30)
@given(SEEDS, st.lists(st.integers(0, 500), min_size=1, max_size=5), SHARPNESSES)
def test_generations_do_not_mix_and_outlive_all_lengths(
    seed: int, ages: list[int], sharpness: float
) -> None:
    rng = np.random.default_rng(seed)
    one = a_filter(rng, sharpness)
    answers = rng.dirichlet(np.ones(5), size=len(ages))
    before = np.stack([one.prior(a_forecast(rng)) for _ in ages])
    together, left = one.refine(before, ages, answers)
    for row, age in enumerate(ages):
        alone, _ = one.refine(before[row][None], [age], answers[row][None])
        assert together[row] == pytest.approx(alone[0])
    assert together.sum(axis=1) == pytest.approx(np.ones(len(ages)))
    assert (one.left(together, ages) >= 1 - 1e-9).all()
    assert left == pytest.approx(one.left(together, ages))


def test_a_generation_that_was_to_be_over_begins_anew() -> None:
    one = a_filter(np.random.default_rng(0), 1.0)
    sure = np.zeros(one.longest)
    sure[9] = 1.0
    answer = np.array([[0.0, 0.0, 1.0, 0.0, 0.0]])
    assert one.refine(sure[None], [9], answer)[0][0, 9] == 1.0
    shares, _ = one.refine(sure[None], [10], answer)
    assert shares.sum() == pytest.approx(1)
    assert 8 <= one.left(shares, [10])[0] <= 12


@given(SEEDS, st.sampled_from([1, 4, 16]))
def test_what_a_prompt_says_becomes_lengths(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    one, forecast = a_filter(rng, 1.0), a_forecast(rng, size)
    prior = one.prior(forecast)
    assert prior.sum() == pytest.approx(1)
    assert (prior > 0).all()
    for bucket, said in enumerate(forecast.probabilities):
        within = prior[bucket * size : (bucket + 1) * size].sum()
        if (bucket + 1) * size < one.longest:
            assert (1 - DOUBT) * said <= within + 1e-9 <= (1 - DOUBT) * said + DOUBT + 2e-9


@examples(20)
@given(SEEDS, st.integers(5, 15), st.integers(0, 10))
def test_it_begins_with_the_lengths_of_training(seed: int, least: int, more: int) -> None:
    """Which follow from how often bins occur over all tokens."""
    bins, rng = LengthBins(10, 40), np.random.default_rng(seed)
    lengths = rng.integers(least, least + more + 1, size=200)
    left = np.concatenate([np.arange(length) for length in lengths])
    often = np.bincount(bins.index(left), minlength=10) + 1.0
    one = LengthFilter(bins, often / often.sum(), 1.0, divides=False)
    assert one.start.sum() == pytest.approx(1)
    assert (one.start > 0).all()
    assert one.start @ one.lengths == pytest.approx(lengths.mean(), abs=3)


def test_what_is_no_filter_is_refused() -> None:
    bins = LengthBins(2, 20)
    for often in ([1.0], [0.5, 0.0], [0.5, float('nan')]):
        with pytest.raises(ConfigurationError, match='2 above 0'):
            LengthFilter(bins, often, 1.0, divides=True)
    for exponent in (-0.1, float('nan')):
        with pytest.raises(ConfigurationError, match='sharpness'):
            LengthFilter(bins, [0.5, 0.5], exponent, divides=True)
        with pytest.raises(ConfigurationError, match='prompt_weight'):
            LengthFilter(bins, [0.5, 0.5], 1.0, divides=True, prompt_weight=exponent)


@examples(30)
@given(SEEDS, st.sampled_from([0.0, 0.3, 1.0]))
def test_a_prompt_counts_as_much_as_it_is_said_to(seed: int, weight: float) -> None:
    rng = np.random.default_rng(seed)
    bins, often = LengthBins(5, 20), rng.dirichlet(np.ones(5)) + 0.01
    full, part = (
        LengthFilter(bins, often, 1.0, divides=False, prompt_weight=it) for it in (1.0, weight)
    )
    forecast = a_forecast(rng)
    found = part.prior(forecast)
    wanted = full.start ** (1 - weight) * full.prior(forecast) ** weight
    assert found == pytest.approx(wanted / wanted.sum())
    assert (found > 0).all()
    assert part.told(part.start, forecast) == pytest.approx(found)


@examples(30)
@given(SEEDS, st.lists(st.integers(0, 500), min_size=1, max_size=9), SHARPNESSES)
def test_what_an_engine_asks_for_at_once_is_the_same_as_in_turn(
    seed: int, ages: list[int], sharpness: float
) -> None:
    rng = np.random.default_rng(seed)
    one = a_filter(rng, sharpness)
    before = np.stack([one.prior(a_forecast(rng)) for _ in ages])
    answers = rng.dirichlet(np.ones(5), size=len(ages))
    shares, left = one.refine(before, ages, answers)
    assert left == pytest.approx(one.left(shares, ages))
    product = before * one.likelihood(ages, answers)
    assert shares == pytest.approx(product / product.sum(axis=1, keepdims=True))
