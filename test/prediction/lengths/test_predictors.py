"""The predictors of plans' lengths, without torch: distributions, prompts, probes, files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.prediction.noisy_lengths import NoisyLengths

from timely_llm_ros.errors import ConfigurationError, ModelLoadError
from timely_llm_ros.prediction.lengths.length_bins import LengthBins
from timely_llm_ros.prediction.lengths.probe import (
    ProbeSettings,
    RemainingLengthProbe,
    read_probe,
    write_probe,
)
from timely_llm_ros.prediction.lengths.response_length import LengthDistribution
from timely_llm_ros.prediction.lengths.rlp import read_rlp
from timely_llm_ros.prediction.lengths.rlp_calibration import (
    TEMPERATURES,
    bucket_prior,
    calibrate,
    probabilities,
)
from timely_llm_ros.prediction.lengths.rlp_prompt import compress_prompt

if TYPE_CHECKING:
    from pathlib import Path

SHARES = st.lists(st.floats(0.01, 1), min_size=1, max_size=12)


@given(SHARES, st.integers(1, 64), st.floats(0.01, 1))
def test_a_quantile_covers_its_share_and_no_bucket_more(
    shares: list[float], size: int, share: float
) -> None:
    total = sum(shares)
    lengths = LengthDistribution(tuple(it / total for it in shares), size)
    bucket = lengths.quantile(share) // size
    below = sum(lengths.probabilities[:bucket])
    assert below >= share - 1e-6
    assert below - lengths.probabilities[bucket - 1] < share
    assert 1 <= lengths.mean <= len(shares) * size


def test_a_distribution_has_mean_and_eq_2() -> None:
    lengths = LengthDistribution((0.5, 0.25, 0.25), 8)
    assert lengths.mean == 0.5 * 4.5 + 0.25 * 12.5 + 0.25 * 20.5
    assert (lengths.predicted(512), lengths.predicted(5)) == (8, 5)
    with pytest.raises(ConfigurationError, match='probabilities'):
        LengthDistribution((0.5, 0.4), 8)
    with pytest.raises(ConfigurationError, match='above 0'):
        lengths.quantile(1.5)


BODY = (
    'scene:\nred cup on table +0.1 -0.2=cup_1\nblue pen on table +0.3 +0.2=pen_2\n\n'
    'grey pen under table +0.3 +0.2=pen_4\n\n'
    'old cat near sofa -1.0 +2.0=cat_3\ntask: clear the table\nplan:\n'
)


def compressed(body: str, most: int) -> str:
    """Return the shortened prompt as text; a token is a byte."""
    found = compress_prompt(
        'robot: arm\nmany skills\n', body, lambda text: list(text.encode()), most
    )
    assert len(found) <= most
    return bytes(found).decode()


def test_a_scene_becomes_numbers() -> None:
    assert compressed(BODY, 200) == ('robot: arm\n4\n2 on table\ntask: clear the table')
    asked = BODY.replace('clear the table', 'which pens are under the sofa')
    assert compressed(asked, 200).startswith('robot: arm\n4\n2 pen\ntask: which')
    asked = BODY.replace('clear the table', 'what is under the table')
    assert '\n1 under table\ntask' in compressed(asked, 200)
    # A prompt of another shape is taken as it is.
    assert compressed('cup=1\ndo it', 200) == 'robot: arm\n0\ncup=1\ndo it'


@given(st.integers(1, 80))
def test_what_matters_least_goes_first(most: int) -> None:
    assert compressed(BODY, most) == compressed(BODY, 10**6)[-most:]


@given(st.integers(1, 120), st.integers(0, 120))
def test_what_lies_at_the_place_named_is_counted_in_any_scene(there: int, elsewhere: int) -> None:
    lines = [f'old pen in sofa +0.3 +0.2=pen_{n}' for n in range(elsewhere)]
    lines += [f'red cup on desk +0.1 -0.2=cup_{n}' for n in range(there)]
    body = 'scene:\n' + '\n'.join(lines) + '\ntask: clean the desk\nplan:\n'
    assert compressed(body, 10**6).splitlines()[1:3] == [
        f'{there + elsewhere}',
        f'{there} on desk',
    ]


@examples(40)
@given(st.integers(0, 2**31), st.integers(1, 300), st.floats(0, 6), st.floats(0, 0.5))
def test_calibrated_quantiles_hold_where_enough_is_known(
    seed: int, plans: int, sure: float, wrong: float
) -> None:
    """Whatever the network's scores are like; a share of plans is as no prompt foretells."""
    rng = np.random.default_rng(seed)
    buckets = rng.integers(1, 9, size=plans)
    scores = rng.normal(size=(plans, 8))
    told = np.where(rng.random(plans) < wrong, rng.integers(1, 9, size=plans), buckets)
    scores[np.arange(plans), told - 1] += sure
    prior = bucket_prior(buckets.tolist(), 8)
    found = calibrate(scores, buckets.tolist(), prior)
    mixed = (1 - found.prior_share) * probabilities(scores, found.temperature)
    mixed += found.prior_share * np.array(prior)
    assert mixed.sum(axis=1) == pytest.approx(np.ones(plans))
    held = [
        bucket <= LengthDistribution(tuple(row), 1).quantile(0.9)
        for row, bucket in zip(mixed.tolist(), buckets.tolist(), strict=True)
    ]
    assert np.mean(held) >= 0.9 or found.temperature == max(TEMPERATURES)


def test_calibration_says_what_it_needs() -> None:
    with pytest.raises(ConfigurationError, match='one row for each'):
        calibrate(np.zeros((2, 3)), [1], [0.5, 0.5, 0.0])


def probe(rng: np.random.Generator, **options: Any) -> RemainingLengthProbe:
    weights = {
        'inner': rng.normal(size=(6, 4)),
        'inner_bias': rng.normal(size=6),
        'outer': rng.normal(size=(10, 6)),
        'outer_bias': rng.normal(size=10),
        'frequencies': np.full(10, 0.1),
    }
    return RemainingLengthProbe(
        ProbeSettings(2, LengthBins(10, 80), **options),
        {name: it.astype(np.float32) for name, it in weights.items()},
        {'plans': 3},
    )


@examples(30)
@given(
    st.integers(0, 2**31),
    st.integers(1, 30),
    st.integers(1, 8),
    st.sampled_from([1.0, 0.5, 0.0]),
    st.booleans(),
)
def test_a_plan_is_followed_answer_by_answer(
    seed: int, tokens: int, every: int, sharpness: float, told: bool
) -> None:
    rng = np.random.default_rng(seed)
    one = probe(rng, sharpness=sharpness, divides=True)
    forecast = LengthDistribution(tuple(rng.dirichlet(np.ones(20))), 4) if told else None
    states = rng.normal(size=(tokens, 4)).astype(np.float32)
    answers, shares = one.follow(states, every, forecast=forecast)
    assert answers == pytest.approx(one.answer(states))
    known = one.filter.start if forecast is None else one.filter.prior(forecast)
    for token in range(tokens):
        if token % every == 0:
            known = one.filter.refine(known[None], [token + 1], answers[token][None])[0][0]
        still = np.where(one.filter.lengths > token + 1, known, 0.0)
        assert shares[token] == pytest.approx(still / still.sum())


def test_a_probe_comes_back_from_its_files(tmp_path: Path) -> None:
    pytest.importorskip('safetensors')
    one = probe(np.random.default_rng(1), sharpness=0.5, divides=True)
    write_probe(tmp_path, one)
    again = read_probe(tmp_path)
    states = np.ones((3, 4), np.float32)
    assert again.settings == one.settings
    assert again.answer(states) == pytest.approx(one.answer(states))
    (tmp_path / 'probe.json').write_text('{"format": 7}')
    with pytest.raises(ModelLoadError, match='format 7'):
        read_probe(tmp_path)
    with pytest.raises(ModelLoadError, match='train-rlp'):
        read_rlp(tmp_path)


def test_a_probe_whose_weights_do_not_fit_is_refused() -> None:
    weights = probe(np.random.default_rng(1)).weights
    with pytest.raises(ConfigurationError, match='5 bins'):
        RemainingLengthProbe(ProbeSettings(1, LengthBins(5, 80)), weights, {})


@given(st.integers(0, 100), st.integers(1, 300), st.floats(0, 2))
def test_noise_is_repeatable_and_none_is_the_truth(seed: int, length: int, spread: float) -> None:
    noisy = NoisyLengths(first=spread, refined=spread, seed=seed)
    assert noisy.predict('g', length) == noisy.predict('g', length) >= 1
    assert NoisyLengths().predict('g', length) == length
    assert NoisyLengths().refine('g', 8, length + 8) == length
    assert NoisyLengths(refined=None).refine('g', 8, length) is None
