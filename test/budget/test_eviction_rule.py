"""What is evicted once prefill is over: the worst case first, then what is likelier."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from timely_llm_ros.budget.budgeter import choose_eviction_after_prefill
from timely_llm_ros.budget.eviction_rule import BudgetedEviction, Case
from timely_llm_ros.budget.task_budget import BudgetOptions
from timely_llm_ros.prediction.execution_time import TimeCoefficients
from timely_llm_ros.prediction.length_forecast import Sample
from timely_llm_ros.prediction.response_length import LengthDistribution

TIMES = TimeCoefficients(0.0, 0.0, 0.0, 1e-5, 0.01)
WORST = replace(TIMES, kv_token_s=2e-5, step_s=0.02)
NOW_S = 100.0

prompts = st.integers(1, 5000)
lengths = st.integers(1, 300)
budgets = st.floats(-1.0, 20.0)
ladders = st.lists(lengths, max_size=6).map(
    lambda found: tuple(Case(TIMES, n) for n in sorted(found, reverse=True))
)


def rule(budget_s: float, worst: int, likelier: tuple[Case, ...] = ()) -> BudgetedEviction:
    return BudgetedEviction(NOW_S + budget_s, WORST, worst, 0.9, likelier)


def fits(case: Case, prompt: int, budget_s: float) -> bool:
    return choose_eviction_after_prefill(
        case.times,
        prompt_tokens=prompt,
        worst_length=case.length,
        remaining_s=(NOW_S + budget_s) - NOW_S,  # As the rule gets it: an end, and a now.
        max_evicted=0.9,
    ).feasible


@given(prompts, lengths, budgets, ladders)
def test_a_worst_case_that_fits_decides_alone(
    prompt: int, worst: int, budget_s: float, likelier: tuple[Case, ...]
) -> None:
    kept = rule(budget_s, worst, likelier).keep(prompt, NOW_S)
    assert 1 <= kept <= prompt
    if fits(Case(WORST, worst), prompt, budget_s):
        assert kept == rule(budget_s, worst).keep(prompt, NOW_S)


@given(prompts, lengths, budgets, ladders)
def test_the_first_case_that_can_fit_does(
    prompt: int, worst: int, budget_s: float, likelier: tuple[Case, ...]
) -> None:
    kept = rule(budget_s, worst, likelier).keep(prompt, NOW_S)
    cases = [Case(WORST, worst), *likelier]
    chosen = next((case for case in cases if fits(case, prompt, budget_s)), None)
    if chosen is None:
        assert kept == rule(budget_s, worst).keep(prompt, NOW_S)
        return
    # A token that is kept for alpha_max's sake may cost less than p seconds per step.
    steps = chosen.length - 1
    taken_s = chosen.times.decode_time_s(prompt, chosen.length, 1 - kept / prompt)
    assert taken_s <= budget_s + chosen.times.kv_token_s * steps + 1e-9


@given(prompts, lengths, st.floats(0.01, 3.0), ladders)
def test_what_is_late_anyway_ends_before_a_later_beginning(
    prompt: int, worst: int, period_s: float, likelier: tuple[Case, ...]
) -> None:
    skipping = replace(rule(period_s, worst, likelier), period_s=period_s)
    cases = [Case(WORST, worst), *likelier]
    ends_s = [n * period_s for n in range(1, 17)]
    # The rule adds up periods, this test multiplies: where the last bit decides, both are right.
    assume(
        all(
            fits(it, prompt, s - 1e-9) == fits(it, prompt, s + 1e-9) for it in cases for s in ends_s
        )
    )
    reached = next(
        (n for n in range(1, 17) if any(fits(case, prompt, n * period_s) for case in cases)), None
    )
    if reached is not None:
        expected = rule(reached * period_s, worst, likelier).keep(prompt, NOW_S)
        assert abs(skipping.keep(prompt, NOW_S) - expected) <= 1  # rounding of the times' sum


def test_where_eviction_saves_nothing_nothing_is_evicted() -> None:
    flat = replace(TIMES, kv_token_s=0.0)
    late = BudgetedEviction(NOW_S - 1.0, flat, 40, 0.9, (Case(flat, 20),))
    assert late.keep(1000, NOW_S) == 1000


def test_likelier_cases_are_quantiles_from_the_most_careful_on() -> None:
    forecast = LengthDistribution((0.05, 0.05, 0.3, 0.5, 0.1), 4)
    cases = BudgetOptions().likelier_cases(TIMES, forecast, 18)
    assert [case.length for case in cases] == [18, 16, 12, 8, 4]
    assert all(case.times is TIMES for case in cases)
    assert BudgetOptions().likelier_cases(TIMES, Sample(()), 18) == ()


@pytest.mark.parametrize(('budget_s', 'kept'), [(0.41, 1000), (0.25, 400), (0.21, 100)])
def test_a_likelier_case_keeps_more_than_the_worst(budget_s: float, kept: int) -> None:
    likelier = (Case(TIMES, 21), Case(TIMES, 20))
    assert rule(budget_s, 80).keep(1000, NOW_S) == 100
    assert rule(budget_s, 80, likelier).keep(1000, NOW_S) == pytest.approx(kept, abs=160)
