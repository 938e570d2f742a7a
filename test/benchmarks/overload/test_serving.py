"""More than can be served, on virtual time: whom the node's default refuses."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.overload.overload import OURS, ways
from benchmarks.overload.serving import overload, serve
from timely_llm_ros.errors import TaskRefusedError, WorthlessError
from timely_llm_ros.planner import gate


def codes(load: float) -> Counter[int]:
    """Return how many goals ended with which code."""
    workload = overload(load, duration_s=30.0, seed=1)
    return Counter(one.code for one in serve(workload, ways(8)[OURS]))


def test_who_is_only_a_little_late_by_what_is_expected_is_not_refused_while_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hoped = codes(2.0)
    monkeypatch.setattr(gate, 'HOPE', 1.0)
    strict = codes(2.0)
    assert hoped[TaskRefusedError.code] < strict[TaskRefusedError.code]
    # Of those that were taken for it some were in time.
    assert hoped[0] > strict[0]
    assert hoped[WorthlessError.code] >= strict[WorthlessError.code]


def test_there_is_no_such_hope_from_the_first_seconds_on_where_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hoped = codes(10.0)
    monkeypatch.setattr(gate, 'HOPE', 1.0)
    strict = codes(10.0)
    assert hoped[TaskRefusedError.code] == pytest.approx(strict[TaskRefusedError.code], rel=0.02)
    assert hoped[0] == pytest.approx(strict[0], rel=0.02)
