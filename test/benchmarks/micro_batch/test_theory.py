"""The formulas of micro-batches of one size against values computed beforehand."""

from __future__ import annotations

from typing import Any

import pytest
from support.golden import golden

from benchmarks.micro_batch import theory

GOLDEN = golden('golden_microbatch.json')


@pytest.mark.parametrize('case', GOLDEN['nb_continuous'])
def test_golden_balanced_count(case: Any) -> None:
    given = case['inputs']
    got = theory.balanced_count(given['pp'], given['comp'], given['comm'])
    assert got == pytest.approx(case['expected'], rel=case['tol'])


@pytest.mark.parametrize('case', GOLDEN['imbalance_idle'])
def test_golden_imbalance(case: Any) -> None:
    given = case['inputs']
    got = theory.imbalance_idle(given['k'], given['x'], given['y'])
    assert got._asdict() == pytest.approx(case['expected'], rel=case['tol'])


@pytest.mark.parametrize('case', GOLDEN['steady_period'] + GOLDEN['steady_period_serial_link'])
def test_golden_steady_period(case: Any) -> None:
    given = case['inputs']
    got = theory.steady_period_s(
        given['pp'],
        given['num_micro_batch'],
        given['comp'],
        given['comm'],
        return_s=given.get('ret', 0.0),
        serial_links='ret' not in given,
    )
    assert got == pytest.approx(case['expected'], rel=case['tol'])
