"""More than can be served, on virtual time: whom the node's default refuses."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.overload.overload import OURS, ways
from benchmarks.overload.serving import overload, serve
from timely_llm_ros.errors import TaskRefusedError
from timely_llm_ros.planner import gate


def codes(load: float) -> Counter[int]:
    """Return how many goals ended with which code."""
    workload = overload(load, duration_s=30.0, seed=1)
    return Counter(one.code for one in serve(workload, ways(8)[OURS]))


@pytest.mark.parametrize('load', [2.0, 10.0], ids=['room', 'no room'])
def test_who_is_a_little_late_by_what_is_expected_is_taken_only_while_there_is_room(
    monkeypatch: pytest.MonkeyPatch, load: float
) -> None:
    hoped = codes(load)
    monkeypatch.setattr(gate, 'HOPE', 1.0)
    strict = codes(load)
    if load == 2.0:
        # Of those that were taken for it some were in time.
        assert hoped[0] > strict[0]
        assert hoped[TaskRefusedError.code] < strict[TaskRefusedError.code]
    else:
        # That there is none is known after some seconds.
        for code in (0, TaskRefusedError.code):
            assert hoped[code] == pytest.approx(strict[code], rel=0.1)
