from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.golden import golden
from support.linear_costs import linear_costs

from benchmarks.micro_batch.theory import steady_period_s
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.scheduling import microbatch
from timely_llm_ros.scheduling.microbatch import LinearCosts

GOLDEN = golden('golden_microbatch.json')

LAN = LinearCosts(0.017, 0.0006, 0.001, 0.00082)
"""About what a 13B model takes on four small cards with 100 Mbps between them."""


@pytest.mark.parametrize('case', GOLDEN['t_first_token'])
def test_golden_first_token(case: Any) -> None:
    given = case['inputs']
    got = microbatch.first_token_s(given['pp'], given['comp'], given['comm'])
    assert got == pytest.approx(case['expected'], rel=case['tol'])


@pytest.mark.parametrize('case', GOLDEN['t_rank0'])
def test_golden_first_stage(case: Any) -> None:
    given = case['inputs']
    got = microbatch.first_stage_s(given['num_micro_batch'], given['comp'])
    assert got == pytest.approx(case['expected'], rel=case['tol'])


def linear(given: Any) -> LinearCosts:
    comp, comm = given['comp'], given['comm']
    return LinearCosts(comp['c0'], comp['c1'], comm['m0'], comm['m1'])


@pytest.mark.parametrize(
    'case', GOLDEN['best_num_micro_batch'], ids=lambda case: case['inputs']['case']
)
@pytest.mark.parametrize('whole', [False, True])
def test_golden_algorithm_2(case: Any, whole: bool) -> None:
    given = case['inputs']
    got = microbatch.least_gap_count(
        given['pp'],
        given['max_num_micro_batch'],
        given['num_total_tokens'],
        linear(given),
        whole=whole,
    )
    assert got == case['expected']


costs = linear_costs()


@given(st.integers(1, 6), st.integers(1, 24), st.integers(0, 3000), costs)
def test_algorithm_2_is_the_least_gap_in_exact_numbers(
    stages: int, most: int, tokens: int, model: LinearCosts
) -> None:
    exact = LinearCosts(
        Fraction(model.compute_base_s),
        Fraction(model.compute_token_s),
        Fraction(model.transfer_base_s),
        Fraction(model.transfer_token_s),
    )  # type: ignore[arg-type]

    def gap(count: int) -> Fraction:
        size: Any = Fraction(tokens, count)
        compute: Any = exact.compute_s(size)
        return abs((stages - count) * compute + (stages - 1) * exact.transfer_s(size))  # type: ignore[no-any-return]

    got = microbatch.least_gap_count(stages, most, tokens, model)
    counts = range(stages, min(most, tokens) + 1)
    if not counts:
        assert got == stages
    else:
        assert got in counts
        least = min(gap(count) for count in counts)
        assert gap(got) <= least + Fraction(1, 10**9)


@given(
    st.integers(1, 6),
    st.integers(1, 24),
    st.integers(1, 3000),
    costs,
    st.floats(0, 0.1),
    st.floats(0, 1),
    st.floats(0, 1e-6),
    st.integers(0, 100_000),
)
def test_the_best_count_is_the_best_of_all(
    stages: int,
    most: int,
    tokens: int,
    model: LinearCosts,
    return_s: float,
    share: float,
    context_token_s: float,
    context: int,
) -> None:
    model = replace(model, context_token_s=context_token_s)

    def cost_s(count: int) -> float:
        compute_s = model.compute_s(-(-tokens // count)) + context_token_s * context / count
        way_s = microbatch.first_token_s(stages, compute_s, model.transfer_s(-(-tokens // count)))
        return share * way_s + microbatch.round_s(
            stages, count, tokens, model, return_s=return_s, context_tokens=context
        )

    got = microbatch.best_count(
        stages, most, tokens, model, return_s=return_s, refill_share=share, context_tokens=context
    )
    assert 1 <= got <= min(most, tokens)
    least = min(map(cost_s, range(1, min(most, tokens) + 1)))
    assert cost_s(got) == pytest.approx(least, rel=1e-9)
    if share == 0 and stages <= min(most, tokens):
        other = microbatch.least_gap_count(stages, most, tokens, model)
        assert cost_s(got) <= cost_s(other) * (1 + 1e-9)


@given(st.integers(1, 6), st.integers(1, 24), st.integers(1, 500), costs)
def test_a_round_of_equal_micro_batches_is_the_steady_period(
    stages: int, count: int, size: int, model: LinearCosts
) -> None:
    got = microbatch.round_s(stages, count, count * size, model)
    expected = steady_period_s(stages, count, model.compute_s(size), model.transfer_s(size))
    assert got == pytest.approx(expected)


@given(st.integers(1, 6), st.integers(1, 24), st.integers(1, 3000), costs, st.floats(0, 0.5))
def test_only_a_clear_gain_leaves_the_usual_count(
    stages: int, most: int, tokens: int, model: LinearCosts, margin: float
) -> None:
    def cost_s(count: int) -> float:
        size = -(-tokens // count)
        way_s = microbatch.first_token_s(stages, model.compute_s(size), model.transfer_s(size))
        return microbatch.REFILL_SHARE * way_s + microbatch.round_s(stages, count, tokens, model)

    got = microbatch.sure_count(stages, most, tokens, model, margin=margin)
    best = microbatch.best_count(stages, most, tokens, model)
    usual = min(microbatch.least_gap_count(stages, most, tokens, model), most, tokens)
    assert 1 <= got <= min(most, tokens)
    assert got in (usual, best)
    if cost_s(usual) > (1 + margin) * cost_s(best) * (1 + 1e-9):
        assert got == best
    elif cost_s(usual) < (1 + margin) * cost_s(best) * (1 - 1e-9):
        assert got == usual


def test_a_clear_gain_is_taken() -> None:
    model = LinearCosts(0.05, 0.0001, 0.05, 0.001)
    assert microbatch.least_gap_count(4, 16, 64, model) == 7
    assert microbatch.best_count(4, 16, 64, model) == 6
    assert microbatch.sure_count(4, 16, 64, model) == 6
    assert microbatch.sure_count(4, 16, 64, model, margin=0.5) == 7
    assert microbatch.sure_count(4, 16, 0, model) == 4
    assert microbatch.sure_count(4, 2, 64, model) == 2, 'not the least that algorithm 2 knows'


def test_more_micro_batches_where_the_links_are_slow() -> None:
    slow = replace(LAN, transfer_base_s=0.01)
    counts = [microbatch.best_count(4, 16, 40, model) for model in (LAN, slow)]
    assert counts == [5, 6]
    none = LinearCosts(0.017, 0.0006)
    assert microbatch.best_count(4, 16, 40, none) == 4


def test_long_contexts_are_spread_over_more_micro_batches() -> None:
    model = LinearCosts(0.01, 0.0, 0.03, context_token_s=1e-6)
    short, long = (
        microbatch.best_count(4, 16, 8, model, context_tokens=context) for context in (0, 40_000)
    )
    assert short < long


def test_without_work_it_is_as_many_as_stages() -> None:
    assert microbatch.best_count(4, 16, 0, LAN) == 4
    assert microbatch.best_count(4, 2, 0, LAN) == 2
    assert microbatch.least_gap_count(4, 16, 0, LAN) == 4
    assert microbatch.least_gap_count(4, 2, 100, LAN) == 4, 'as the paper has it'


def test_few_tokens_are_not_spread_over_empty_micro_batches() -> None:
    assert microbatch.best_count(4, 16, 3, LAN) <= 3
    assert microbatch.best_count(4, 16, 1, LAN) == 1


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [((0, 4, 10), 'stages 0'), ((4, 0, 10), 'most 0'), ((4, 4, -1), 'tokens -1')],
)
def test_refused(arguments: tuple[int, int, int], message: str) -> None:
    for rule in (microbatch.least_gap_count, microbatch.best_count):
        with pytest.raises(ConfigurationError, match=message):
            rule(*arguments, LAN)
