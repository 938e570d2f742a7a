from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.golden import golden

from benchmarks.multibin.static_batches import form_batches
from timely_llm_ros.errors import ConfigurationError, InvalidTaskError
from timely_llm_ros.scheduling.multibin import MultiBinQueue, assign_bin

GOLDEN = golden('golden_multibin.json')


def drain(queue: MultiBinQueue[Any]) -> list[Any]:
    formed = []
    while (batch := queue.pop()) is not None:
        formed.append(batch)
    return formed


@pytest.mark.parametrize('case', GOLDEN['assign_bin'])
def test_golden_bin(case: Any) -> None:
    given = case['inputs']
    assert assign_bin(given['l'], given['bounds']) + 1 == case['expected']


@pytest.mark.parametrize('case', GOLDEN['fig1b_example'])
def test_golden_figure_1b(case: Any) -> None:
    given = case['inputs']
    totals = []
    for edges in ([1, 6], given['k2_bounds']):
        queue: MultiBinQueue[int] = MultiBinQueue(edges, given['B'])
        for number, time_s in enumerate(given['times']):
            queue.push(number, time_s, float(number))
        formed = drain(queue)
        totals.append(sum(max(given['times'][i] for i in batch.items) for batch in formed))
    assert totals == case['expected']


def test_batches_are_served_as_they_were_formed() -> None:
    queue: MultiBinQueue[str] = MultiBinQueue([0, 10, 20], 2)
    for number, (item, length) in enumerate([('a', 1), ('b', 11), ('c', 12), ('d', 2), ('e', 3)]):
        queue.push(item, length, float(number))
    first, second = drain(queue)
    assert (first.bin, first.items, first.formed_s) == (1, ('b', 'c'), 2.0)
    assert (second.bin, second.items, second.formed_s) == (0, ('a', 'd'), 3.0)
    assert queue.waiting == (1, 0)
    assert len(queue) == 1


def test_nobody_waits_longer_than_allowed() -> None:
    queue: MultiBinQueue[str] = MultiBinQueue([0, 10, 20], 8, max_wait_s=5.0)
    assert queue.next_flush_s == math.inf
    queue.push('late', 15, 1.0)
    queue.push('early', 3, 2.0)
    assert queue.next_flush_s == 6.0
    queue.advance(5.999)
    assert queue.pop() is None
    queue.advance(6.0)
    assert [batch.items for batch in drain(queue)] == [('late',)]
    assert queue.next_flush_s == 7.0
    queue.push('more', 4, 7.5)
    assert [batch.items for batch in drain(queue)] == [('early',)], 'a push forms what is due'
    queue.flush(8.0)
    assert [batch.items for batch in drain(queue)] == [('more',)]
    assert len(queue) == 0


def test_no_wait_at_all_is_one_request_a_batch() -> None:
    queue: MultiBinQueue[int] = MultiBinQueue([0, 1], 8, max_wait_s=0.0)
    for number in range(3):
        queue.push(number, 0.5, 1.0)
    assert [batch.items for batch in drain(queue)] == [(0,), (1,), (2,)]


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, float, list[tuple[str, float, float]]]:
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from(['push', 'push', 'push', 'pop', 'advance']),
                st.floats(-5, 35),
                st.floats(0, 3),
            ),
            max_size=60,
        )
    )
    return draw(st.integers(1, 4)), draw(st.sampled_from([0.0, 1.0, 5.0, math.inf])), steps


@given(histories())
def test_nothing_is_lost_or_doubled_and_no_one_waits_too_long(history: Any) -> None:
    batch, max_wait_s, steps = history
    edges = [0, 10, 20, 30]
    queue: MultiBinQueue[int] = MultiBinQueue(edges, batch, max_wait_s)
    now_s = 0.0
    came: dict[int, tuple[float, float]] = {}
    taken: list[Any] = []
    for kind, value, later_s in steps:
        end_s = now_s + later_s
        # As a caller with a timer does.
        while queue.next_flush_s <= end_s:
            now_s = queue.next_flush_s
            queue.advance(now_s)
        now_s = end_s
        if kind == 'push':
            queue.push(len(came), value, now_s)
            came[len(came)] = (value, now_s)
        elif kind == 'pop' and (formed := queue.pop()) is not None:
            taken.append(formed)
        gone = sum(len(formed.items) for formed in taken)
        assert len(queue) == len(came) - gone
        assert all(waiting < batch for waiting in queue.waiting)
    queue.flush(now_s)
    taken += drain(queue)
    served = [item for formed in taken for item in formed.items]
    assert sorted(served) == sorted(came)
    assert [formed.formed_s for formed in taken] == sorted(formed.formed_s for formed in taken)
    for formed in taken:
        assert 1 <= len(formed.items) <= batch
        assert list(formed.items) == sorted(formed.items), 'by arrival'
        for item in formed.items:
            length, since_s = came[item]
            assert assign_bin(length, edges) == formed.bin
            assert since_s <= formed.formed_s <= since_s + max_wait_s


def test_the_simulation_forms_the_same_batches() -> None:
    rng = np.random.default_rng(3)
    arrival_s = np.cumsum(rng.exponential(0.1, 1000))
    lengths = rng.uniform(1, 20, 1000)
    edges = [1, 7, 12, 20]
    queue: MultiBinQueue[int] = MultiBinQueue(edges, 16)
    for number, (length, at_s) in enumerate(zip(lengths, arrival_s, strict=True)):
        queue.push(number, length, at_s)
    queue.flush(arrival_s[-1])
    queued = drain(queue)
    bins = np.array([assign_bin(length, edges) for length in lengths])
    formed = form_batches(arrival_s, lengths, bins, 16)

    def row(at_s: float, service_s: float, size: int) -> tuple[float, float, int]:
        return round(float(at_s), 9), float(service_s), int(size)

    expected = [row(b.formed_s, max(lengths[list(b.items)]), len(b.items)) for b in queued]
    got = list(map(row, formed.formed_s, formed.service_s, formed.size))
    assert sorted(got) == sorted(expected)
    assert [at_s for at_s, _, _ in got] == [at_s for at_s, _, _ in expected]


@pytest.mark.parametrize(
    ('call', 'error', 'message'),
    [
        (lambda: MultiBinQueue([1], 8), ConfigurationError, r'boundaries \[1.0\]'),
        (lambda: MultiBinQueue([1, 1], 8), ConfigurationError, 'increasing'),
        (lambda: MultiBinQueue([1, math.nan], 8), ConfigurationError, 'increasing'),
        (lambda: MultiBinQueue([1, 2], 0), ConfigurationError, 'batch 0'),
        (lambda: MultiBinQueue([1, 2], 8, -1.0), ConfigurationError, 'max_wait_s -1.0'),
        (
            lambda: MultiBinQueue[str]([1, 2], 8).push('x', math.nan, 0.0),
            InvalidTaskError,
            "'x'.*nan",
        ),
    ],
)
def test_refused(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_request_that_is_queued_already_is_refused() -> None:
    queue: MultiBinQueue[str] = MultiBinQueue([0, 10], 2)
    queue.push('a', 1, 0.0)
    with pytest.raises(InvalidTaskError, match="'a'"):
        queue.push('a', 5, 1.0)
    assert len(queue) == 1
