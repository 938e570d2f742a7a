"""Whole plans, split into the segments that they would have been sent in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.evaluation.what_if.plans import PlannedSegment, split_plan, statements

PLAN = PlannedSegment(
    'takeoff;goto(cat_3);scan;', ('takeoff', 'goto(cat_3)', 'scan'), 25, 8.0, 16.0
)


def test_a_statement_is_a_segment() -> None:
    parts = split_plan(PLAN, (2.0, 5.0, 1.0))
    assert [part.text for part in parts] == ['takeoff;', 'goto(cat_3);', 'scan;']
    assert [part.calls for part in parts] == [('takeoff',), ('goto(cat_3)',), ('scan',)]
    assert [part.tokens for part in parts] == [8, 12, 5]
    assert [part.expected_s for part in parts] == pytest.approx([2.0, 5.0, 1.0])
    assert [part.execution_s for part in parts] == pytest.approx([4.0, 10.0, 2.0])


def test_a_block_stays_whole() -> None:
    text = 'repeat 3 {hover;scan;};land;'
    assert statements(text) == ['repeat 3 {hover;scan;};', 'land;']
    plan = PlannedSegment(text, ('hover', 'scan', 'land'), 14, 7.0, 7.0)
    first, last = split_plan(plan, (1.0, 1.0, 1.0))
    assert first.tokens + last.tokens == 14
    assert first.execution_s == pytest.approx(7.0 * 23 / 28)


def test_a_single_statement_is_left_as_it_is() -> None:
    plan = PlannedSegment('scan;', ('scan',), 3, 1.0, 1.0)
    assert split_plan(plan, (1.0,)) == [plan]


@given(
    calls=st.lists(st.sampled_from(['takeoff', 'goto(cat_3)', 'x', 'say("a b")']), min_size=1),
    tokens=st.integers(1, 300),
    took_s=st.floats(0, 100),
    known=st.booleans(),
)
def test_nothing_is_lost_or_made_up(
    calls: list[str], tokens: int, took_s: float, known: bool
) -> None:
    plan = PlannedSegment(''.join(f'{c};' for c in calls), tuple(calls), tokens, 1.0, took_s)
    parts = split_plan(plan, [0.5] * len(calls) if known else ())
    assert ''.join(part.text for part in parts) == plan.text
    assert sum(part.tokens for part in parts) == tokens
    assert all(part.tokens >= 0 for part in parts)
    assert sum(part.execution_s for part in parts) == pytest.approx(took_s)
    assert [call for part in parts for call in part.calls] == calls
