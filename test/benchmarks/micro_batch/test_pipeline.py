"""The simulated pipeline: against the formulas, and serving without losing anything."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.golden import golden

from benchmarks.micro_batch.pipeline_serving import (
    Chunk,
    GreedyAdmission,
    KvMemory,
    Request,
    SpreadAdmission,
    serve,
)
from benchmarks.micro_batch.pipeline_table import PAPER, Times, improvement
from benchmarks.micro_batch.simulated_pipeline import Pipeline
from benchmarks.micro_batch.theory import imbalance_idle, steady_period_s
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.scheduling.microbatch import LinearCosts, PipelineModel

GOLDEN = golden('golden_microbatch.json')

LAN = LinearCosts(0.017, 0.0006, 0.001, 0.00082)


@pytest.mark.parametrize('case', GOLDEN['table1_improvement'])
def test_golden_improvement(case: Any) -> None:
    given = case['inputs']
    before, after = (
        Times(given['completion'][i], given['proc'][i], given['idle'][i]) for i in (0, 2)
    )
    got = improvement(before, after)
    expected = case['expected']
    assert got == pytest.approx(
        (expected['speedup'], expected['proc_pct'], expected['idle_pct']), rel=case['tol']
    )
    table = {str(workload): times for workload, times in PAPER.items()}[given['workload']]
    for system, times in enumerate(table):
        values = [given[key][system] for key in ('completion', 'proc', 'idle')]
        assert times == tuple(values)


@pytest.mark.parametrize('case', GOLDEN['table1_averages'])
def test_golden_averages(case: Any) -> None:
    assert len(PAPER) == case['inputs']['rows']
    gains = [improvement(times[0], times[2]) for times in PAPER.values()]
    means = [
        sum(getattr(gain, name) for gain in gains) / len(gains) for name in ('speedup', 'idle_pct')
    ]
    assert means == pytest.approx(case['expected'], rel=case['tol'])


def rounds_s(
    pipeline: Pipeline, sizes: list[int], rounds: int, measured: int, context: float = 0.0
) -> float:
    """Mean time of the last rounds: a micro-batch goes in again when it comes back."""
    back_s = [0.0] * len(sizes)
    marks = []
    for _ in range(rounds):
        for number, size in enumerate(sizes):
            back_s[number] = pipeline.run(size, back_s[number], context)
        marks.append(back_s[0])
    return (marks[-1] - marks[-1 - measured]) / measured


@pytest.mark.parametrize('case', GOLDEN['steady_period'] + GOLDEN['steady_period_serial_link'])
def test_golden_period_by_simulation(case: Any) -> None:
    given = case['inputs']
    pipeline = Pipeline(
        given['pp'],
        LinearCosts(given['comp'], 0.0, given['comm']),
        return_s=given.get('ret', 0.0),
        serial_links='ret' not in given,
    )
    got = rounds_s(pipeline, [1] * given['num_micro_batch'], 80, 40)
    assert got == pytest.approx(case['expected'], rel=1e-9)


@given(
    st.integers(1, 5),
    st.integers(1, 9),
    st.floats(0.001, 0.2),
    st.floats(0, 0.2),
    st.floats(0, 0.1),
    st.booleans(),
)
@examples(50)
def test_the_steady_period_is_the_formulas(
    stages: int, count: int, compute_s: float, transfer_s: float, return_s: float, serial: bool
) -> None:
    costs = LinearCosts(compute_s, 0.0, transfer_s)
    pipeline = Pipeline(stages, costs, return_s=return_s, serial_links=serial)
    expected = steady_period_s(
        stages, count, compute_s, transfer_s, return_s=return_s, serial_links=serial
    )
    assert rounds_s(pipeline, [1] * count, 60, 20) == pytest.approx(expected, rel=1e-6)


@given(
    st.integers(1, 5),
    st.integers(1, 9),
    st.integers(1, 100),
    st.builds(
        LinearCosts,
        st.floats(1e-3, 0.1),
        st.floats(0, 1e-3),
        st.floats(0, 0.1),
        st.floats(0, 1e-3),
        st.floats(0, 1),
        st.floats(0, 1e-5),
    ),
    st.integers(0, 10_000),
)
@examples(50)
def test_the_round_of_uneven_micro_batches_is_what_the_rule_takes_it_for(
    stages: int, count: int, tokens: int, costs: LinearCosts, context: int
) -> None:
    count = min(count, tokens)
    small, larger = divmod(tokens, count)
    sizes = [small + 1] * larger + [small] * (count - larger)
    got = rounds_s(Pipeline(stages, costs), sizes, 120, 60, context / count)
    # Ways that change from one micro-batch to the next can be longer still, but hardly.
    expected = PipelineModel(stages, count, costs).round_s(count, tokens, context)
    assert got == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize('case', GOLDEN['t_first_token'])
def test_golden_first_token_by_simulation(case: Any) -> None:
    given = case['inputs']
    pipeline = Pipeline(given['pp'], LinearCosts(given['comp'], 0.0, given['comm']))
    assert pipeline.run(1, 0.0) == pytest.approx(case['expected'], rel=case['tol'])
    assert pipeline.busy_s == given['comp']


@pytest.mark.parametrize('case', GOLDEN['imbalance_idle'])
def test_golden_imbalance_by_simulation(case: Any) -> None:
    given = case['inputs']
    stages, first, second = given['k'], given['x'], given['y']
    # A token costs a second; the links nothing.
    pipeline = Pipeline(stages, LinearCosts(0.0, 1.0))
    pipeline.run(first, 0.0)
    done_s = pipeline.stage_free_s
    pipeline.run(second, 0.0)
    idle = [
        end_s - second - before_s
        for end_s, before_s in zip(pipeline.stage_free_s, done_s, strict=True)
    ]
    assert idle[-1] == pytest.approx(case['expected']['last'], rel=case['tol'])
    assert sum(idle) == pytest.approx(case['expected']['total'], rel=case['tol'])
    assert imbalance_idle(stages, first, second).total == pytest.approx(sum(idle))


def test_a_link_carries_one_at_a_time() -> None:
    costs = LinearCosts(0.1, 0.0, 1.0)
    serial, free = Pipeline(2, costs), Pipeline(2, costs, serial_links=False)
    assert [serial.run(1, 0.0), serial.run(1, 0.0)] == pytest.approx([1.2, 2.2])
    assert [free.run(1, 0.0), free.run(1, 0.0)] == pytest.approx([1.2, 1.3])


def test_no_stage_is_refused() -> None:
    with pytest.raises(ConfigurationError, match='stages 0'):
        Pipeline(0, LAN)


# Serving


class Watched:
    """An admission of which every micro-batch is checked."""

    def __init__(self, inner: GreedyAdmission, memory: KvMemory, most: int) -> None:
        self.inner, self.memory, self.most = inner, memory, most
        self.blocks = memory.free
        self.done: list[Request] = []
        self.seen: dict[int, Request] = {}

    @property
    def preempted(self) -> int:
        return self.inner.preempted

    @property
    def limit(self) -> int:
        return self.inner.limit

    @property
    def left(self) -> int:
        return self.inner.left

    def compose(self, in_flight: int) -> list[Chunk]:
        chunks = self.inner.compose(in_flight)
        assert sum(chunk.tokens for chunk in chunks) <= self.most
        assert all(chunk.tokens > 0 for chunk in chunks)
        self.seen |= {id(chunk.request): chunk.request for chunk in chunks}
        assert len({id(chunk.request) for chunk in chunks}) == len(chunks)
        held = sum(request.blocks for request in self.seen.values())
        assert held + self.memory.free <= self.blocks
        assert self.memory.free >= 0
        for request, _ in chunks:
            assert request.scheduled <= request.context
            assert request.scheduled <= 16 * request.blocks
        return chunks

    def finished(self, request: Request) -> None:
        self.done.append(request)
        self.inner.finished(request)


def admission(kind: str, requests: list[Request], memory: KvMemory, most: int) -> GreedyAdmission:
    if kind == 'greedy':
        return GreedyAdmission(requests, memory, most, 4)
    return SpreadAdmission(requests, memory, most, PipelineModel(4, 8, LAN).best_count)


@given(
    st.lists(st.tuples(st.integers(1, 90), st.integers(1, 40)), min_size=1, max_size=12),
    st.integers(10, 60),
    st.integers(4, 128),
    st.sampled_from(['greedy', 'spread']),
)
@examples(60)
def test_every_request_is_served_once_within_the_memory(
    lengths: list[tuple[int, int]], blocks: int, most: int, kind: str
) -> None:
    requests = [Request(prompt, output) for prompt, output in lengths]
    memory = KvMemory(16 * blocks)
    watched = Watched(admission(kind, requests, memory, most), memory, most)
    served = serve(watched, LAN)
    assert sorted(map(id, watched.done)) == sorted(map(id, requests))
    for request, (prompt, output) in zip(requests, lengths, strict=True):
        assert request.to_generate == 0
        assert request.context == prompt + output
        assert request.in_flight == 0
    assert memory.free == blocks, 'all of it is free again'
    needed = sum(prompt + output - 1 for prompt, output in lengths)
    assert served.tokens == needed if not served.preempted else served.tokens >= needed
    assert 0 <= served.busy_s <= served.completion_s
    assert served.idle_s >= 0


def test_one_request_takes_its_way_through_the_pipeline_for_each_token() -> None:
    for kind in ('greedy', 'spread'):
        memory = KvMemory(1600)
        served = serve(admission(kind, [Request(1, 10)], memory, 100), LAN)
        way_s = PipelineModel(4, 8, LAN).way_s(1)
        assert served.completion_s == pytest.approx(10 * way_s)
        assert served.micro_batches == 10


def test_who_came_last_is_computed_again_where_memory_is_short() -> None:
    again = []
    for reuse in (False, True):
        requests = [Request(100, 100), Request(100, 100)]
        served = serve(GreedyAdmission(requests, KvMemory(304, reuse=reuse), 512, 4), LAN)
        assert served.preempted >= 1
        again.append(served.tokens - 2 * 199)
    # Without reuse all of its 19 blocks' half; with it, what the other one had not yet taken.
    assert again[0] >= 140
    assert 0 < again[1] < again[0]


def test_blocks_of_who_was_preempted_are_found_until_somebody_takes_them() -> None:
    memory = KvMemory(160)
    first, second = Request(100, 10), Request(150, 10)
    assert memory.begin(first, 100) == 100
    first.scheduled = 100
    assert memory.begin(second, 150) == 0, 'only 3 of 10 blocks are free'
    memory.release(first)
    assert memory.free == 10
    first.scheduled = 0
    assert memory.begin(first, 100) == 4, 'its six full blocks are still there'
    first.scheduled = 100
    memory.release(first)
    first.scheduled = 0
    assert memory.begin(second, 70) == 70, 'five blocks, of which one had been left'
    second.scheduled = 70
    memory.release(second, ended=True)
    assert memory.begin(first, 100) == 20, 'five are left'
    assert memory.free == 3


def test_a_request_that_can_never_fit_is_an_error() -> None:
    for kind in ('greedy', 'spread'):
        with pytest.raises(ConfigurationError, match='KV memory'):
            serve(admission(kind, [Request(100, 100)], KvMemory(128), 512), LAN)


def test_a_prompt_that_can_never_fit_is_an_error() -> None:
    for kind in ('greedy', 'spread'):
        with pytest.raises(ConfigurationError, match='KV memory'):
            serve(admission(kind, [Request(100, 1)], KvMemory(64), 512), LAN)


def test_returns_come_in_order() -> None:
    pipeline = Pipeline(3, LAN)
    ends = deque(pipeline.run(size, 0.0) for size in (5, 1, 9, 2))
    assert list(ends) == sorted(ends)
