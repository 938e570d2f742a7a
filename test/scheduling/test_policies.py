from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.equation_4 import priority

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.scheduling.admission import PrintedBatchLimit, StepTimes
from timely_llm_ros.scheduling.generation import TableView
from timely_llm_ros.scheduling.policies import (
    POLICIES,
    HighestUtilityDensityFirst,
    find_policy,
    preemption_limit,
)

GOLDEN = json.loads((Path(__file__).parents[1] / 'data' / 'golden_timelyllm.json').read_text())


def cases(name: str) -> list[Any]:
    found = [case for case in GOLDEN if case['name'] == name]
    assert found
    return found


def view(
    *,
    arrival: list[float],
    ert: list[float],
    alpha: list[float],
    beta: list[float],
    segment: list[int],
    due: list[float],
    generation: list[float],
) -> TableView:
    return TableView(
        np.array(arrival, float),
        np.array(ert, float),
        np.array(alpha, float),
        np.array(beta, float),
        np.array(segment, np.int64),
        np.array(due, float),
        np.array(generation, float),
        np.zeros(len(arrival), np.int64),
        np.zeros(len(arrival)),
        np.zeros(len(arrival)),
        np.zeros(len(arrival), np.int64),
        np.zeros(len(arrival), np.int64),
        np.zeros(len(arrival), np.int64),
        np.full(len(arrival), np.inf),
    )


def golden_view(inputs: dict[str, Any]) -> TableView:
    first = inputs['k'] == 0
    return view(
        arrival=[inputs['arrival']],
        ert=[inputs['ERT']],
        alpha=[inputs['alpha']],
        beta=[inputs['beta']],
        segment=[inputs['k']],
        due=[inputs['arrival'] if first else inputs['prev_exec_end']],
        generation=[inputs['G']],
    )


@pytest.mark.parametrize('case', cases('priority'), ids=lambda case: case['inputs']['case'])
def test_golden_priority(case: Any) -> None:
    inputs, expected = case['inputs'], case['expected']
    parts = priority(
        golden_view(inputs),
        inputs['now'],
        network_s=inputs['net'],
        minimum_slack_s=inputs['eps'],
    )
    assert parts.waiting_s[0] == pytest.approx(expected['W'], rel=case['tol'])
    assert parts.utility[0] == pytest.approx(expected['TUF'], rel=case['tol'])
    assert parts.slack_s[0] == pytest.approx(expected['L'], rel=case['tol'])
    assert parts.density[0] == pytest.approx(expected['pri'], rel=case['tol'])


@pytest.mark.parametrize('case', cases('priority'), ids=lambda case: case['inputs']['case'])
def test_rank_is_the_priority_unless_late(case: Any) -> None:
    inputs, expected = case['inputs'], case['expected']
    policy = HighestUtilityDensityFirst(network_s=inputs['net'], minimum_slack_s=inputs['eps'])
    rank = policy.rank(golden_view(inputs), inputs['now'])[0]
    if expected['TUF'] > 0:
        assert rank == pytest.approx(expected['pri'], rel=case['tol'])
    else:
        assert rank == pytest.approx(-inputs['G'] / abs(inputs['alpha']))


@pytest.mark.parametrize('case', cases('late_class_order'))
def test_golden_late_class(case: Any) -> None:
    jobs = case['inputs']['jobs_absalpha_G']
    n = len(jobs)
    late = view(
        arrival=[0.0] * n,
        ert=[0.1] * n,
        alpha=[-slope for slope, _ in jobs],
        beta=[1.0] * n,
        segment=[0] * n,
        due=[0.0] * n,
        generation=[generation for _, generation in jobs],
    )
    ranks = POLICIES['utility'].rank(late, 1000.0)
    assert np.argsort(-ranks, kind='stable').tolist() == case['expected']


@pytest.mark.parametrize('case', cases('batch_admission'))
def test_golden_admission(case: Any) -> None:
    inputs, expected = case['inputs'], case['expected']
    times = StepTimes()
    times.observe(1, 1.0 / inputs['speed_tok_s'])
    running = inputs['budget_s'], inputs['max_len'] - inputs['generated']
    joins = PrintedBatchLimit(4, times).count([running, (9.0, 1)], 1) == 2
    # The account of KV asks whether memory is free, not this rule.
    assert (joins and inputs['free_mb'] >= inputs['need_mb']) is expected['admit']


generations = st.lists(
    st.tuples(
        st.floats(0, 100),
        st.floats(0, 5),
        st.floats(-10, -0.01),
        st.floats(0.1, 5),
        st.integers(0, 3),
        st.floats(0, 100),
        st.floats(0.001, 2),
    ),
    min_size=1,
    max_size=20,
)


def as_view(rows: list[tuple[float, ...]]) -> TableView:
    arrival, ert, alpha, beta, segment, due, generation = map(list, zip(*rows, strict=True))
    return view(
        arrival=arrival,
        ert=ert,
        alpha=alpha,
        beta=beta,
        segment=[int(index) for index in segment],
        due=due,
        generation=generation,
    )


@given(generations, st.floats(0, 200))
def test_late_ones_are_behind_all_others(rows: list[tuple[float, ...]], now_s: float) -> None:
    table = as_view(rows)
    ranks = POLICIES['utility'].rank(table, now_s)
    late = priority(table, now_s).utility <= 0
    assert np.isfinite(ranks).all()
    assert (ranks[late] < 0).all()
    assert (ranks[~late] > 0).all()


@given(generations, st.floats(0, 200))
def test_each_rank_depends_on_its_own_row_alone(
    rows: list[tuple[float, ...]], now_s: float
) -> None:
    for policy in POLICIES.values():
        together = policy.rank(as_view(rows), now_s)
        apart = [policy.rank(as_view([row]), now_s)[0] for row in rows]
        assert together.tolist() == apart


def test_fcfs_and_edf_keep_the_first_priority() -> None:
    table = view(
        arrival=[1.0, 2.0],
        ert=[3.0, 0.5],
        alpha=[-1.0, -1.0],
        beta=[1.0, 1.0],
        segment=[4, 0],
        due=[99.0, 2.0],
        generation=[0.1, 0.1],
    )
    assert POLICIES['fcfs'].rank(table, 5.0).argmax() == 0
    assert POLICIES['edf'].rank(table, 5.0).tolist() == [-4.0, -2.5]


def test_alpha_zero_is_never_late() -> None:
    table = view(
        arrival=[0.0], ert=[1.0], alpha=[0.0], beta=[1.0], segment=[0], due=[0.0], generation=[0.1]
    )
    assert POLICIES['utility'].rank(table, 1e9)[0] > 0


def test_unknown_policy() -> None:
    with pytest.raises(ConfigurationError, match=r"'lifo'.*edf.*fcfs.*utility"):
        find_policy('lifo')


@given(st.floats(0, 1000), st.floats(0, 1))
def test_the_preemption_limit_is_within_the_prediction(predicted: float, share: float) -> None:
    assert 0 <= preemption_limit(predicted, share) <= predicted + 1e-9


def test_the_preemption_limit_in_tokens_is_not_off_by_a_last_bit() -> None:
    assert preemption_limit(25.0, 0.28) == 7
