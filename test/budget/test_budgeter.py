from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.budget.budgeter import (
    EvictionChoice,
    choose_eviction,
    retained_tokens,
)
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.lengths.response_length import (
    bucket_of,
    pessimistic_length,
    predicted_length,
)
from timely_llm_ros.prediction.times.execution_time import TimeCoefficients

C1 = TimeCoefficients(1e-8, 2e-4, 0.02, 1e-6, 0.03)
C2 = TimeCoefficients(4e-9, 1.5e-4, 0.02, 8.24e-8, 0.0225)

coefficients = st.builds(
    TimeCoefficients,
    st.floats(0, 1e-7), st.floats(0, 1e-3), st.floats(0, 0.1), st.floats(0, 1e-5),
    st.floats(0, 0.1),
)  # fmt: skip
prompts = st.integers(0, 32768)
lengths = st.integers(1, 8192)
budgets = st.floats(-1, 2000)
shares = st.floats(0, 1)


def choose(
    times: TimeCoefficients, prompt: int, length: int, budget_s: float, most: float,
    cached_tokens: int = 0,
) -> EvictionChoice:  # fmt: skip
    prefill_s = times.prefill_time_s(prompt, cached_tokens) if prompt >= 0 else 0.0
    return choose_eviction(
        times, prompt_tokens=prompt, worst_length=length, budget_s=budget_s, max_evicted=most,
        prefill_s=prefill_s,
    )  # fmt: skip


@given(coefficients, prompts, lengths, budgets, shares)
def test_a_feasible_choice_keeps_the_budget(
    times: TimeCoefficients,
    prompt: int,
    length: int,
    budget_s: float,
    most: float,
) -> None:
    choice = choose(times, prompt, length, budget_s, most)
    assert 0 <= choice.evicted <= most
    worst_s = times.total_time_s(prompt, length, choice.evicted)
    assert choice.worst_s == pytest.approx(worst_s)
    near = 1e-9 * max(1.0, abs(budget_s))
    if choice.feasible:
        assert worst_s <= budget_s + near
        if choice.evicted > 0:
            assert worst_s == pytest.approx(budget_s, abs=near)
    else:
        best_s = times.total_time_s(prompt, length, most)
        assert best_s > budget_s - near


@given(coefficients, prompts, lengths, budgets, st.floats(0, 10), shares)
def test_a_longer_budget_never_evicts_more(
    times: TimeCoefficients, prompt: int, length: int, budget_s: float, more_s: float, most: float
) -> None:
    tight = choose(times, prompt, length, budget_s, most)
    loose = choose(times, prompt, length, budget_s + more_s, most)
    assert loose.evicted <= tight.evicted or not loose.feasible
    assert loose.feasible or not tight.feasible
    if times.leverage_s(prompt, length, 1.0) > 0:
        assert loose.evicted <= tight.evicted


@given(coefficients, prompts, lengths, st.integers(0, 500), budgets, st.floats(0, 0.05))
def test_longer_responses_and_slower_steps_never_evict_less(
    times: TimeCoefficients, prompt: int, length: int, more: int, budget_s: float, slower_s: float
) -> None:
    choice = choose(times, prompt, length, budget_s, 0.95)
    longer = choose(times, prompt, length + more, budget_s, 0.95)
    assert longer.evicted >= choice.evicted - 1e-9
    slow = TimeCoefficients(
        times.prefill_square_s, times.prefill_token_s, times.prefill_s, times.kv_token_s,
        times.step_s + slower_s,
    )  # fmt: skip
    assert choose(slow, prompt, length, budget_s, 0.95).evicted >= choice.evicted - 1e-9


@pytest.mark.parametrize(
    ('prompt', 'length', 'times'),
    [
        (0, 100, C1),
        (8000, 1, C1),
        (8000, 100, TimeCoefficients(1e-8, 2e-4, 0.02, 0.0, 0.03)),
    ],
    ids=['no prompt', 'no step', 'no time per context'],
)
def test_where_eviction_saves_nothing_nothing_is_evicted(
    prompt: int, length: int, times: TimeCoefficients
) -> None:
    needed_s = times.total_time_s(prompt, length)
    enough = choose(times, prompt, length, needed_s, 0.95)
    assert (enough.evicted, enough.feasible) == (0.0, True)
    short = choose(times, prompt, length, needed_s - 0.001, 0.95)
    assert (short.evicted, short.feasible) == (0.0, False)


def test_a_budget_that_is_over_or_endless() -> None:
    over = choose(C1, 8000, 512, -3.0, 0.95)
    assert (over.evicted, over.feasible) == (0.95, False)
    endless = choose(C1, 8000, 512, math.inf, 0.95)
    assert (endless.evicted, endless.feasible) == (0.0, True)


def test_after_prefill_what_is_left_counts() -> None:
    planned = choose(C1, 8000, 512, 19.0, 0.95)
    prefill_s = C1.prefill_time_s(8000)
    kept = choose_eviction(C1, prompt_tokens=8000, worst_length=512, budget_s=19.0 - prefill_s)
    assert kept.evicted == pytest.approx(planned.evicted)
    # The queue took 0.5 s that the model knows nothing of.
    late = choose_eviction(
        C1, prompt_tokens=8000, worst_length=512, budget_s=19.0 - prefill_s - 0.5
    )
    assert late.evicted == pytest.approx(planned.evicted + 0.5 / C1.leverage_s(8000, 512, 1.0))


def test_cached_tokens_leave_more_of_the_budget() -> None:
    whole = choose(C1, 8000, 512, 19.0, 0.95)
    cached = choose(C1, 8000, 512, 19.0, 0.95, cached_tokens=4000)
    saved_s = C1.prefill_time_s(8000) - C1.prefill_time_s(8000, 4000)
    difference = saved_s / C1.leverage_s(8000, 512, 1.0)
    assert whole.evicted - cached.evicted == pytest.approx(difference)


@pytest.mark.parametrize(
    ('more', 'message'),
    [
        ({'prompt': -1}, '-1 prompt tokens'),
        ({'length': 0}, 'worst length 0'),
        ({'budget_s': math.nan}, 'time budget nan'),
        ({'most': 1.5}, '1.5: expected 0 to 1'),
        ({'cached_tokens': 9000}, '9000 cached tokens'),
    ],
)
def test_wrong_values_are_named(more: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {'prompt': 8000, 'length': 100, 'budget_s': 5.0, 'most': 0.95} | more
    with pytest.raises(ConfigurationError, match=message):
        choose(C1, **values)


@given(prompts, shares, shares)
def test_retained_tokens_keep_both_promises(prompt: int, one: float, other: float) -> None:
    evicted, most = sorted((one, other))
    kept = retained_tokens(prompt, evicted, most)
    assert 0 <= kept <= prompt
    assert kept >= (1 - most) * prompt - 1e-8
    assert kept <= max((1 - evicted) * prompt, (1 - most) * prompt + 1) + 1e-8


# Two thousand jobs under Kill: lognormal prompts and lengths, a predictor that errs.

FIXED = (0.0, 0.25, 0.5, 0.75, 0.95)
TABLE = [
    # coefficients, T, completion with fixed shares, with the budgeter at k = 1, 5, 8, infeasible
    (C1, 5, (0.5490, 0.5580, 0.5685, 0.5780, 0.5905), (0.5715, 0.5905, 0.5905), 0.936),
    (C1, 10, (0.8410, 0.8485, 0.8590, 0.8670, 0.8725), (0.8550, 0.8725, 0.8725), 0.691),
    (C2, 5, (0.7735, 0.7745, 0.7755, 0.7795, 0.7810), (0.7760, 0.7810, 0.7810), 0.833),
    (C2, 10, (0.9585, 0.9590, 0.9600, 0.9600, 0.9615), (0.9610, 0.9615, 0.9615), 0.512),
]


def jobs() -> list[tuple[int, int, int]]:
    """(prompt, true length, predicted length) of each job."""
    rng = np.random.default_rng(2025)
    prompt = np.clip(rng.lognormal(8.7, 0.8, 2000), 500, 32000).astype(int)
    length = np.clip(rng.lognormal(4.2, 0.9, 2000), 1, 512).astype(int)
    guess = np.clip(length * np.exp(rng.normal(0, 0.5, 2000)), 1, 512)
    predicted = [predicted_length(bucket_of(math.ceil(n), 16), 16, 512) for n in guess.tolist()]
    return list(zip(prompt.tolist(), length.tolist(), predicted, strict=True))


@pytest.mark.parametrize(('times', 'budget_s', 'fixed', 'budgeted', 'infeasible'), TABLE)
def test_completion_under_kill(
    times: TimeCoefficients,
    budget_s: float,
    fixed: tuple[float, ...],
    budgeted: tuple[float, ...],
    infeasible: float,
) -> None:
    work = jobs()

    def completes(prompt: int, length: int, evicted: float) -> bool:
        return times.total_time_s(prompt, length, evicted) <= budget_s + 1e-9

    done = {a: [completes(x, n, a) for x, n, _ in work] for a in FIXED}
    assert [np.mean(done[a]) for a in FIXED] == pytest.approx(fixed)
    for k, rate in zip((1, 5, 8), budgeted, strict=True):
        choices = [
            choose(times, x, pessimistic_length(guess, k, 512), budget_s, 0.95)
            for x, _, guess in work
        ]
        ends = [completes(x, n, c.evicted) for (x, n, _), c in zip(work, choices, strict=True)]
        assert np.mean(ends) == pytest.approx(rate, abs=0.002)
        if k == 5:
            share = np.mean([not choice.feasible for choice in choices])
            assert share == pytest.approx(infeasible, abs=0.005)
        # Where no response is longer than the worst case, it completes what evicting the most does.
        for place, (_, n, guess) in enumerate(work):
            if n <= pessimistic_length(guess, k, 512):
                assert ends[place] is done[0.95][place]
