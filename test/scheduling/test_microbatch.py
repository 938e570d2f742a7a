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
from timely_llm_ros.scheduling.microbatch import REFILL_SHARE, SURE_GAIN, LinearCosts, PipelineModel

GOLDEN = golden('golden_microbatch.json')

LAN = LinearCosts(0.017, 0.0006, 0.001, 0.00082)
"""About what a 13B model takes on four small cards with 100 Mbps between them."""


@pytest.mark.parametrize('case', GOLDEN['t_first_token'])
def test_golden_first_token(case: Any) -> None:
    given = case['inputs']
    got = PipelineModel(given['pp'], 1, LinearCosts(given['comp'], 0.0, given['comm'])).way_s(1)
    assert got == pytest.approx(case['expected'], rel=case['tol'])


def linear(given: Any) -> LinearCosts:
    comp, comm = given['comp'], given['comm']
    return LinearCosts(comp['c0'], comp['c1'], comm['m0'], comm['m1'])


@pytest.mark.parametrize(
    'case', GOLDEN['best_num_micro_batch'], ids=lambda case: case['inputs']['case']
)
def test_golden_algorithm_2(case: Any) -> None:
    given = case['inputs']
    model = PipelineModel(given['pp'], given['max_num_micro_batch'], linear(given))
    assert model.least_gap_count(given['num_total_tokens']) == case['expected']


costs = linear_costs()


@given(st.integers(1, 6), st.integers(1, 24), st.integers(0, 3000), costs)
def test_algorithm_2_is_the_least_gap_in_exact_numbers(
    stages: int, most: int, tokens: int, model: LinearCosts
) -> None:
    def fraction(value: float) -> Any:
        return Fraction(value)

    exact = LinearCosts(
        fraction(model.compute_base_s),
        fraction(model.compute_token_s),
        fraction(model.transfer_base_s),
        fraction(model.transfer_token_s),
    )

    def gap(count: int) -> Fraction:
        size: Any = Fraction(tokens, count)
        compute: Any = exact.compute_s(size)
        found: Fraction = abs((stages - count) * compute + (stages - 1) * exact.transfer_s(size))
        return found

    got = PipelineModel(stages, most, model).least_gap_count(tokens)
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
    linear_costs(context_token_s=st.floats(0, 1e-6)),
    st.floats(0, 0.1),
    st.integers(0, 100_000),
)
def test_the_best_count_is_the_best_of_all(
    stages: int, most: int, tokens: int, costs: LinearCosts, return_s: float, context: int
) -> None:
    model = PipelineModel(stages, most, costs, return_s)

    def cost_s(count: int) -> float:
        way_s = model.way_s(-(-tokens // count), context / count)
        return REFILL_SHARE * way_s + model.round_s(count, tokens, context)

    got = model.best_count(tokens, context)
    assert 1 <= got <= min(most, tokens)
    least = min(map(cost_s, range(1, min(most, tokens) + 1)))
    assert cost_s(got) == pytest.approx(least, rel=1e-9)


@given(st.integers(1, 6), st.integers(1, 24), st.integers(1, 500), costs)
def test_a_round_of_equal_micro_batches_is_the_steady_period(
    stages: int, count: int, size: int, model: LinearCosts
) -> None:
    got = PipelineModel(stages, count, model).round_s(count, count * size)
    expected = steady_period_s(stages, count, model.compute_s(size), model.transfer_s(size))
    assert got == pytest.approx(expected)


@given(st.integers(1, 6), st.integers(1, 24), st.integers(1, 3000), costs)
def test_only_a_clear_gain_leaves_the_usual_count(
    stages: int, most: int, tokens: int, costs: LinearCosts
) -> None:
    model = PipelineModel(stages, most, costs)

    def cost_s(count: int) -> float:
        way_s = model.way_s(-(-tokens // count))
        return REFILL_SHARE * way_s + model.round_s(count, tokens)

    got = model.sure_count(tokens)
    best = model.best_count(tokens)
    usual = min(model.least_gap_count(tokens), most, tokens)
    assert 1 <= got <= min(most, tokens)
    assert got in (usual, best)
    if cost_s(usual) > (1 + SURE_GAIN) * cost_s(best) * (1 + 1e-9):
        assert got == best
    elif cost_s(usual) < (1 + SURE_GAIN) * cost_s(best) * (1 - 1e-9):
        assert got == usual


def test_a_clear_gain_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = LinearCosts(0.05, 0.0001, 0.05, 0.001)
    model = PipelineModel(4, 16, costs)
    assert model.least_gap_count(64) == 7
    assert model.best_count(64) == 6
    assert model.sure_count(64) == 6
    assert model.sure_count(0) == 4
    few = PipelineModel(4, 2, costs)
    assert few.sure_count(64) == 2, 'not the least that algorithm 2 knows'
    monkeypatch.setattr(microbatch, 'SURE_GAIN', 0.5)
    assert model.sure_count(64) == 7


def test_more_micro_batches_where_the_links_are_slow() -> None:
    slow = replace(LAN, transfer_base_s=0.01)
    none = LinearCosts(0.017, 0.0006)
    assert [PipelineModel(4, 16, it).best_count(40) for it in (none, LAN, slow)] == [4, 5, 6]


def test_long_contexts_are_spread_over_more_micro_batches() -> None:
    model = PipelineModel(4, 16, LinearCosts(0.01, 0.0, 0.03, context_token_s=1e-6))
    assert model.best_count(8, 0) < model.best_count(8, 40_000)


def test_without_work_it_is_as_many_as_stages() -> None:
    many, two = PipelineModel(4, 16, LAN), PipelineModel(4, 2, LAN)
    assert (many.best_count(0), two.best_count(0)) == (4, 2)
    assert many.least_gap_count(0) == 4
    assert two.least_gap_count(100) == 4, 'as the paper has it'


def test_few_tokens_are_not_spread_over_empty_micro_batches() -> None:
    model = PipelineModel(4, 16, LAN)
    assert model.best_count(3) <= 3
    assert model.best_count(1) == 1


def test_an_urgent_prefill_does_not_wait_for_a_whole_round() -> None:
    model = PipelineModel(4, 8, LAN)
    spread = model.prefill_first_token_s(8, 40, 1300, urgent=False)
    at_once = model.prefill_first_token_s(8, 40, 130, urgent=True)
    assert at_once < 0.8 < spread
    short = [model.prefill_first_token_s(8, 40, 130, urgent=urgent) for urgent in (True, False)]
    assert short[0] != short[1]


def test_a_tight_deadline_changes_the_number_and_a_loose_one_does_not() -> None:
    model = PipelineModel(4, 16, LAN)
    free = model.count_in_time(400, 100, 1e9)
    assert free.in_time
    assert free.round_s == min(model.round_s(n, 500) for n in range(1, 17))
    tight = model.count_in_time(400, 100, free.first_token_s - 0.02)
    assert tight.in_time
    assert tight.first_token_s < free.first_token_s
    assert tight.round_s >= free.round_s
    hopeless = model.count_in_time(400, 100, 0.0)
    assert not hopeless.in_time
    assert hopeless.first_token_s <= tight.first_token_s


@given(
    st.integers(1, 6),
    st.integers(1, 16),
    st.integers(0, 500),
    st.integers(0, 3000),
    st.floats(0, 10),
    linear_costs(context_token_s=st.floats(0, 1e-6)),
    st.booleans(),
    st.integers(0, 100_000),
)
def test_the_count_is_in_time_wherever_one_is(
    stages: int,
    most: int,
    decode: int,
    prefill: int,
    deadline_s: float,
    costs: LinearCosts,
    urgent: bool,
    context: int,
) -> None:
    model = PipelineModel(stages, most, costs)
    got = model.count_in_time(decode, prefill, deadline_s, urgent=urgent, context_tokens=context)
    counts = range(1, max(1, min(most, decode + prefill)) + 1)
    assert got.micro_batches in counts
    first_s = {
        count: model.prefill_first_token_s(
            count, decode, prefill, urgent=urgent, context_tokens=context
        )
        for count in counts
    }
    assert got.first_token_s == first_s[got.micro_batches]
    in_time = [count for count in counts if first_s[count] <= deadline_s]
    assert got.in_time == bool(in_time)
    if in_time:
        rounds = [model.round_s(n, decode + prefill, context) for n in in_time]
        assert got.round_s == pytest.approx(min(rounds), rel=1e-9)
    else:
        assert got.first_token_s == pytest.approx(min(first_s.values()), rel=1e-9)


def test_contexts_make_a_first_token_later() -> None:
    model = PipelineModel(4, 8, replace(LAN, context_token_s=1e-6))
    for urgent in (True, False):
        short, long = (
            model.prefill_first_token_s(8, 40, 130, urgent=urgent, context_tokens=context)
            for context in (0, 80_000)
        )
        # Each of the four stages that it passes has an eighth of them to read, after its turn.
        assert long >= short + 4 * 0.01


@pytest.mark.parametrize(('stages', 'most', 'message'), [(0, 4, 'stages 0'), (4, 0, 'most 0')])
def test_no_pipeline_is_refused(stages: int, most: int, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        PipelineModel(stages, most, LAN)


def test_less_than_no_tokens_are_refused() -> None:
    model = PipelineModel(4, 4, LAN)
    for call in (
        lambda: model.least_gap_count(-1),
        lambda: model.best_count(-1),
        lambda: model.count_in_time(-5, 4, 1.0),
    ):
        with pytest.raises(ConfigurationError, match='tokens -1'):
            call()
