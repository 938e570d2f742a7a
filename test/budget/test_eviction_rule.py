"""What is evicted once prefill is over: the worst case first, then what the score is worth."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.budget.budgeter import choose_eviction
from timely_llm_ros.budget.eviction_rule import BudgetedEviction, FixedEviction
from timely_llm_ros.budget.score_rule import (
    SHARES,
    SNAPKV_EFFECT,
    EvictionEffect,
    ScoredEviction,
    likely_lengths,
    spread_of,
)
from timely_llm_ros.budget.task_budget import BudgetOptions, EvictionChoice
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.lengths.length_forecast import Sample
from timely_llm_ros.prediction.lengths.response_length import LengthDistribution
from timely_llm_ros.prediction.times.execution_time import TimeCoefficients

TIMES = TimeCoefficients(0.0, 0.0, 0.0, 1e-5, 0.01)
WORST = replace(TIMES, kv_token_s=2e-5, step_s=0.02)
EFFECT = EvictionEffect(((0.0, ((1.0, 1.0),)), (0.5, ((1.0, 0.9),)), (0.9, ((1.0, 0.6),))))
SHORTER = EvictionEffect(((0.0, ((1.0, 1.0), (1.0, 1.0))), (0.9, ((0.5, 0.4), (1.0, 0.8)))))
NOW_S = 100.0
MOST = 0.9

prompts = st.integers(1, 5000)
lengths = st.integers(1, 300)
budgets = st.floats(-1.0, 20.0)
forecasts = st.lists(st.tuples(lengths, st.floats(0.05, 1.0)), min_size=1, max_size=6).map(
    lambda found: tuple((n, p / sum(share for _, share in found)) for n, p in found)
)


def scored(
    budget_s: float, known: tuple[tuple[int, float], ...], *, spread: float = 0.05
) -> ScoredEviction:
    return ScoredEviction(NOW_S + budget_s, TIMES, spread, known, EFFECT, MOST)


def fits(worst: int, prompt: int, budget_s: float) -> bool:
    return choose_eviction(
        WORST,
        prompt_tokens=prompt,
        worst_length=worst,
        budget_s=(NOW_S + budget_s) - NOW_S,  # As the rule gets it: an end, and a now.
        max_evicted=MOST,
    ).feasible


@given(prompts, lengths, budgets, st.floats(0.0, 0.9))
def test_a_worst_case_that_fits_decides_alone(
    prompt: int, worst: int, budget_s: float, share: float
) -> None:
    rule = BudgetedEviction(NOW_S + budget_s, WORST, worst, MOST)
    kept, other = rule.keep(prompt, NOW_S), FixedEviction(share)
    assert 1 <= kept <= prompt
    with_other = replace(rule, otherwise=other).keep(prompt, NOW_S)
    expected = kept if fits(worst, prompt, budget_s) else other.keep(prompt, NOW_S)
    assert with_other == expected


@given(prompts, budgets, forecasts, st.floats(0.0, 0.3))
def test_no_share_is_worth_more_than_the_one_chosen(
    prompt: int, budget_s: float, known: tuple[tuple[int, float], ...], spread: float
) -> None:
    for period_s in (None, 0.5):
        rule = replace(scored(budget_s, known, spread=spread), period_s=period_s)
        kept = rule.keep(prompt, NOW_S)
        assert 1 <= kept <= prompt
        remaining_s = rule.ends_by_s - NOW_S
        worths = {
            share: rule.worth(prompt, remaining_s, share) for share in SHARES if share <= MOST
        }
        best = max(worths.values())
        assert 0 <= best <= 1 + 1e-9
        # What is kept is that of a share that is worth the most, up to rounding.
        near = [share for share, worth in worths.items() if worth >= best * (1 - 1e-8)]
        assert any(abs(kept - (1 - share) * prompt) <= 1 for share in near) or kept == prompt


@given(prompts, forecasts)
def test_what_ends_in_time_anyhow_or_never_keeps_everything(
    prompt: int, known: tuple[tuple[int, float], ...]
) -> None:
    longest = max(length for length, _ in known)
    ample_s = 10 * TIMES.decode_time_s(prompt, longest) + 1
    assert scored(ample_s, known).keep(prompt, NOW_S) == prompt
    assert scored(-1.0, known).keep(prompt, NOW_S) == prompt


def test_the_chance_is_weighed_against_what_eviction_costs() -> None:
    """21 tokens after 1000: 0.4 s with everything kept, 0.3 s without half, 0.22 s at most."""
    known = ((21, 1.0),)
    assert scored(0.43, known, spread=0.01).keep(1000, NOW_S) == 1000
    assert scored(0.30, known, spread=0.01).keep(1000, NOW_S) == pytest.approx(500, abs=60)
    assert scored(0.23, known, spread=0.01).keep(1000, NOW_S) == pytest.approx(130, abs=40)
    assert scored(0.10, known, spread=0.01).keep(1000, NOW_S) == 1000
    # One chance in twenty to need more is not worth a twelfth of the score.
    assert scored(0.43, ((21, 0.95), (28, 0.05)), spread=0.01).keep(1000, NOW_S) == 1000
    assert scored(0.43, ((21, 0.3), (28, 0.7)), spread=0.01).keep(1000, NOW_S) < 800


@given(prompts, budgets, forecasts, st.floats(0.01, 0.3), st.floats(0, 4), st.floats(0, 4))
def test_the_more_ending_is_worth_the_likelier_it_is(
    prompt: int,
    budget_s: float,
    known: tuple[tuple[int, float], ...],
    spread: float,
    one: float,
    other: float,
) -> None:
    rule = replace(scored(budget_s, known, spread=spread), effect=SHORTER)
    remaining_s = rule.ends_by_s - NOW_S

    def found(weight: float) -> tuple[float, float]:
        """Return the chance to end and the score to expect of what is kept."""
        kept = replace(rule, ended=weight).keep(prompt, NOW_S)
        share = min((*SHARES, MOST), key=lambda it: abs(kept - (1 - it) * prompt))
        score = rule.worth(prompt, remaining_s, share)
        return replace(rule, ended=1.0).worth(prompt, remaining_s, share) - score, score

    if prompt >= 100:  # Every share keeps another number of tokens then.
        less, more = found(min(one, other)), found(max(one, other))
        assert more[0] >= less[0] - 1e-5
        assert more[1] <= less[1] + 1e-5


def test_evicting_takes_time_itself() -> None:
    known = ((21, 1.0),)
    costly = replace(TIMES, evicting_token_s=1e-4)
    # 0.1 s for evicting from 1000 tokens, which is what half of them save.
    assert costly.decode_time_s(1000, 21, 0.5) == pytest.approx(
        0.1 + TIMES.decode_time_s(1000, 21, 0.5)
    )
    assert costly.decode_time_s(1000, 21) == TIMES.decode_time_s(1000, 21)
    rule = scored(0.36, known, spread=0.01)
    assert rule.keep(1000, NOW_S) == pytest.approx(720, abs=60)
    assert replace(rule, times=costly).keep(1000, NOW_S) == pytest.approx(220, abs=80)
    # Where it takes longer than it can save, nothing is evicted.
    useless = replace(TIMES, evicting_token_s=1e-3)
    assert replace(rule, times=useless).keep(1000, NOW_S) == 1000
    assert BudgetedEviction(NOW_S + 0.36, useless, 21, MOST).keep(1000, NOW_S) == 1000


@given(prompts, lengths, st.floats(0.0, 20.0), st.floats(0.0, 1e-3))
def test_what_is_feasible_fits_with_the_time_of_evicting(
    prompt: int, worst: int, budget_s: float, evicting_token_s: float
) -> None:
    times = replace(WORST, evicting_token_s=evicting_token_s)
    choice = choose_eviction(
        times, prompt_tokens=prompt, worst_length=worst, budget_s=budget_s, max_evicted=MOST
    )
    assert choice.worst_s == times.decode_time_s(prompt, worst, choice.evicted)
    assert choice.worst_s <= times.decode_time_s(prompt, worst) * (1 + 1e-9)
    if choice.feasible:
        assert choice.worst_s <= budget_s * (1 + 1e-9)


def test_late_ends_cost_the_periods_that_they_take() -> None:
    known = ((21, 1.0),)
    # Just late with everything kept, and one period more: evicting a little saves it.
    late = replace(scored(0.38, known, spread=0.01), period_s=0.38)
    assert 800 <= late.keep(1000, NOW_S) < 1000
    # Late whatever is evicted, and it makes no difference to how many periods.
    lost = replace(scored(0.15, known, spread=0.01), period_s=1.0)
    assert lost.keep(1000, NOW_S) == 1000


def test_half_an_answer_in_time_is_worth_more_than_a_late_one() -> None:
    known = ((41, 1.0),)
    # 0.8 s with everything kept; every second one ends in 0.3 s without three quarters.
    rule = replace(scored(0.3, known, spread=0.01), effect=SHORTER)
    assert rule.keep(1000, NOW_S) == pytest.approx(250, abs=60)
    assert rule.worth(1000, 0.3, 0.75) == pytest.approx(0.25, abs=0.01)
    assert rule.worth(1000, 0.3, 0.0) == pytest.approx(0, abs=0.01)
    assert scored(0.3, known, spread=0.01).keep(1000, NOW_S) == 1000


def test_effects_lie_on_lines_between_shares() -> None:
    found = [SHORTER.at(share).tolist() for share in (0.0, 0.45, 0.9, 0.95)]
    assert found[0] == [[1, 1], [1, 1]]
    assert found[1] == [pytest.approx([0.75, 0.7]), pytest.approx([1.0, 0.9])]
    assert found[2] == found[3] == [pytest.approx([0.5, 0.4]), pytest.approx([1.0, 0.8])]
    assert EvictionEffect(((0.0, ((1.0, 1.0),)),)).at(0.5).tolist() == [[1, 1]]
    with pytest.raises(ConfigurationError, match='0 first'):
        EvictionEffect(((0.1, ((1.0, 1.0),)),))
    with pytest.raises(ConfigurationError, match='finite'):
        EvictionEffect(((0.0, ((1.0, math.nan),)),))
    with pytest.raises(ConfigurationError, match='as many'):
        EvictionEffect(((0.0, ((1.0, 1.0),)), (0.5, ((1.0, 1.0), (1.0, 0.5)))))


def test_the_measured_effect_only_makes_responses_worse() -> None:
    means = [SNAPKV_EFFECT.at(share)[:, 1].mean() for share in SHARES]
    assert means == sorted(means, reverse=True)
    assert SNAPKV_EFFECT.at(0.0)[:, 0].tolist() == [1.0] * len(SNAPKV_EFFECT.at(0.0))


def test_forecasts_become_equally_likely_lengths() -> None:
    forecast = LengthDistribution((0.05, 0.05, 0.3, 0.5, 0.1), 4)
    found = dict(likely_lengths(forecast, 18))
    assert list(found) == [4, 8, 12, 16, 18]
    assert sum(found.values()) == pytest.approx(1)
    assert found[16] == pytest.approx(0.5)
    ((length, probability),) = likely_lengths(Sample(()), 18)
    assert (length, probability) == pytest.approx((18, 1.0))


@given(st.floats(0.001, 0.5), st.sampled_from([0.9, 0.95, 0.99]))
def test_a_spread_gives_back_its_margin(spread: float, coverage: float) -> None:
    from statistics import NormalDist

    factor = math.exp(spread * NormalDist().inv_cdf(coverage))
    worst = replace(TIMES, step_s=TIMES.step_s * factor)
    assert spread_of(TIMES, worst, coverage) == pytest.approx(spread)
    assert spread_of(TIMES, TIMES, coverage) == 0


def test_what_ending_is_worth_is_a_number() -> None:
    for wrong in (-0.1, math.inf, math.nan):
        with pytest.raises(ConfigurationError, match='ended'):
            BudgetOptions(ended=wrong)


def test_where_eviction_saves_nothing_nothing_is_evicted() -> None:
    flat = replace(TIMES, kv_token_s=0.0)
    asked: dict[str, Any] = {'ends_by_s': NOW_S + 0.2, 'worst_length': 40, 'lengths': ((20, 1.0),)}
    for decides in get_args(EvictionChoice):
        options = BudgetOptions(max_evicted=MOST, eviction=decides)
        rule = options.rule(expected=flat, worst=flat, **asked)
        assert rule.keep(1000, NOW_S) == 1000
        assert pickle.loads(pickle.dumps(rule)) == rule
        late = {**asked, 'ends_by_s': NOW_S - 1}
        kept = options.rule(expected=TIMES, worst=WORST, **late).keep(1000, NOW_S)
        assert kept == (100 if decides == 'most' else 1000)
