from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.golden import golden

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.scheduling.token_budget import TokenBudget

GOLDEN = golden('golden_microbatch.json')


def issued(calls: Any, most: int | None = None) -> list[int]:
    budget = TokenBudget(most)
    return [budget.issue(*call).total for call in calls]


@pytest.mark.parametrize(
    'case', GOLDEN['token_budget_fifo'], ids=lambda case: case['inputs']['case']
)
def test_golden_budgets(case: Any) -> None:
    assert issued(case['inputs']['calls']) == case['expected']


@pytest.mark.parametrize('case', GOLDEN['token_budget_shrink_fixed'])
def test_golden_budgets_where_the_micro_batches_become_fewer(case: Any) -> None:
    assert issued(case['inputs']['calls']) == case['expected']


@pytest.mark.parametrize('case', GOLDEN['token_budget_lifo_ERRATUM'])
def test_shares_are_not_taken_from_the_back_as_printed(case: Any) -> None:
    assert issued(case['inputs']['calls']) != case['expected']


@pytest.mark.parametrize('case', GOLDEN['token_budget_conservation'])
def test_golden_conservation(case: Any) -> None:
    budget, total = TokenBudget(), 0
    for new in case['inputs']['new']:
        total += budget.issue(case['inputs']['nb'], 0, new).prefill
    assert total + budget.waiting == case['expected'] == sum(case['inputs']['new'])


def test_a_burst_is_done_after_as_many_calls_as_micro_batches() -> None:
    budget = TokenBudget()
    first = budget.issue(4, 10, 100)
    assert (first.decode, first.prefill, first.total) == (3, 25, 28)
    assert budget.shares == (25, 25, 25)
    assert sum(budget.issue(4, 10).prefill for _ in range(3)) == 75
    assert budget.waiting == 0


def test_urgent_prefill_goes_first_and_takes_the_place_of_other() -> None:
    budget = TokenBudget(most=100)
    first = budget.issue(8, 80, 400, 60)
    assert (first.decode, first.urgent, first.prefill) == (10, 60, 0), 'beyond the share of 50'
    second = budget.issue(8, 80, 0, 20)
    assert (second.urgent, second.prefill) == (20, 30), 'together the share of 50'
    # A long urgent prompt needs as few micro-batches as the limit allows, not one share of each.
    long = TokenBudget(most=512)
    needed = [long.issue(8, 96, 0, tokens).urgent for tokens in (1300, 0, 0)]
    assert needed == [500, 500, 300]


def test_what_is_withdrawn_is_forgotten() -> None:
    budget = TokenBudget(most=6)
    budget.issue(3, 0, 30, 2)
    assert budget.waiting == 26
    budget.withdraw(16)
    assert budget.waiting == 10
    budget.withdraw(10)
    assert budget.waiting == 0
    assert budget.issue(3, 0).total == 0


def test_decoding_goes_before_prefill_where_there_is_a_limit() -> None:
    budget = TokenBudget(most=5)
    assert budget.issue(2, 8, 10) == (4, 0, 1)
    assert budget.issue(2, 20, 0) == (5, 0, 0)
    assert budget.waiting == 9


calls = st.lists(
    st.tuples(
        st.integers(1, 9),
        st.integers(0, 60),
        st.integers(0, 500),
        st.integers(0, 200),
        st.floats(0, 1),
    ),
    min_size=1,
    max_size=40,
)


@given(calls, st.one_of(st.none(), st.integers(1, 300)))
def test_tokens_are_conserved_and_no_budget_is_above_the_limit(
    history: list[Any], most: int | None
) -> None:
    budget = TokenBudget(most)
    announced = used = 0
    for micro_batches, decode, new, urgent, cancelled in history:
        got = budget.issue(micro_batches, decode, new, urgent)
        announced += new + urgent
        assert min(got) >= 0
        assert most is None or got.total <= most
        assert got.decode * micro_batches >= decode or got.decode == most
        used += got.urgent + got.prefill
        assert used + budget.waiting == announced
        gone = int(cancelled * (announced - used) * 0.3)
        try:
            budget.withdraw(gone)
            announced -= gone
        except ConfigurationError:
            assert gone > sum(budget.shares)
        assert used + budget.waiting == announced


@given(st.integers(1, 20), st.integers(0, 5000), st.integers(0, 100))
def test_shares_are_even_and_a_burst_is_issued_in_one_round(
    micro_batches: int, burst: int, decode: int
) -> None:
    budget = TokenBudget()
    got = [budget.issue(micro_batches, decode, burst)]
    got += [budget.issue(micro_batches, decode) for _ in range(micro_batches - 1)]
    prefill = [one.prefill for one in got]
    assert sum(prefill) == burst
    assert max(prefill) - min(prefill) <= 1
    assert decode <= sum(one.decode for one in got) < decode + micro_batches


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 300)), min_size=1, max_size=20))
def test_there_are_never_more_shares_than_micro_batches_after_new_prefill(
    history: list[tuple[int, int]],
) -> None:
    budget = TokenBudget()
    for micro_batches, new in history:
        budget.issue(micro_batches, 0, new)
        assert len(budget.shares) == micro_batches - 1


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda: TokenBudget(0), 'most 0'),
        (lambda: TokenBudget().issue(0, 1), 'micro_batches 0'),
        (lambda: TokenBudget().issue(1, -1), 'decode_tokens -1'),
        (lambda: TokenBudget().issue(1, 0, -2), 'new_prefill_tokens -2'),
        (lambda: TokenBudget().issue(1, 0, 0, -3), 'new_urgent_tokens -3'),
        (lambda: TokenBudget().withdraw(-1), 'tokens -1'),
        (lambda: TokenBudget().withdraw(1), 'tokens 1: expected 0 to the 0'),
        (lambda: TokenBudget().withdraw(1, urgent=True), 'tokens 1'),
    ],
)
def test_refused(call: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        call()
