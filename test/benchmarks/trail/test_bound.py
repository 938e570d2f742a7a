"""What the TRAIL benchmark says can be known of plans that may go on in many ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.trail.bound import (
    LEAST,
    PROMPT,
    STATE,
    Branched,
    BranchedSampling,
    ages_of,
    bound_of,
    others,
    spoken_by,
)
from benchmarks.trail.distributions import running
from benchmarks.trail.probe import Followed, predictors
from timely_llm_ros.engines.tokens.sampling import Sampling
from timely_llm_ros.prediction.lengths.response_length import LengthDistribution

PREDICTORS = 'predictors_open'


@given(st.integers(0, 50), st.integers(0, 60), st.integers(0, 9))
def test_a_continuation_draws_as_its_plan_does_up_to_its_age(
    age: int, token: int, which: int
) -> None:
    plain, branched = Sampling(1.0, seed=4), BranchedSampling(1.0, seed=4)
    name = 'held_out 11 3:10'
    assert branched.chance(name, token) == plain.chance(name, token)
    same = branched.chance(f'{name}~{age}~0.{which}', token) == plain.chance(name, token)
    assert same == (token < age)


@given(st.lists(st.integers(10, 90), min_size=1, max_size=400))
def test_all_tokens_of_plans_are_looked_at_alike(lengths: list[int]) -> None:
    for place, length in enumerate(lengths):
        ages = ages_of(place, length)
        assert all(0 < age < length for age in ages)
        assert len({age % 8 for age in ages}) == 1
    assert {ages_of(place, 90)[0] for place in range(8)} == set(range(1, 9))


def followed(length: int) -> Followed:
    """Return a plan of which the prompt says nothing, and the states neither."""
    probe, _ = predictors(PREDICTORS)
    said = LengthDistribution((1 / 32,) * 32, 4)
    rows = probe.filter.running(np.tile(probe.filter.start, (length - 1, 1)), np.arange(1, length))
    answers = np.full((length - 1, probe.settings.bins.count), 1 / probe.settings.bins.count)
    return Followed('plan', length, said, said, answers, rows, rows, rows, rows, answers)


def test_what_is_decided_can_be_known_and_what_is_not_cannot() -> None:
    # After 5 tokens the first plan's end is drawn, evenly from two; the second one's nearly is.
    plans = [followed(20), followed(30)]
    evenly, nearly = np.tile([20.0, 40.0], 50), np.tile([29.0, 31.0], 50)
    branched = [
        Branched(0, 0, evenly), Branched(0, 5, evenly), Branched(0, 10, np.full(100, 20.0)),
        Branched(1, 0, nearly), Branched(1, 9, nearly),
    ]  # fmt: skip
    found = bound_of(plans, branched, PREDICTORS)
    assert (found.states, found.plans, found.continuations) == (3, 2, 500)
    assert found.errors[LEAST] == pytest.approx((10 + 0 + 1) / 3)
    assert found.errors[STATE] >= found.errors[LEAST]
    assert found.errors[PROMPT] == pytest.approx((10 + 10 + 1) / 3)
    assert found.errors['refined'] > found.errors[STATE]
    ratio, error = found.ratios['perfect prompt / least error']
    assert ratio == pytest.approx(21 / 11)
    assert error >= 0
    best = spoken_by(branched, plans)
    assert best[0].first == 30
    assert best[0].left[:4] == (29, 28, 27, 26)
    assert best[0].left[8:11] == (21, 10, 9)
    assert best[1].left == tuple(range(29, 0, -1))


def test_none_of_the_others_knows_a_length() -> None:
    lengths = np.array([1.0, 2.0, 9.0])
    assert others(lengths, np.median).tolist() == [5.5, 5.0, 1.5]
    wanted: Any = {0: 2.0, 1: 5.5, 8: 9.0, 9: 10.0}
    assert {age: running(lengths, age) for age in wanted} == wanted
