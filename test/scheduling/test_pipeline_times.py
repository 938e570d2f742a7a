"""Costs of a pipeline, learned from when micro-batches go in and come out."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.scheduling.microbatch import LinearCosts
from timely_llm_ros.scheduling.pipeline_times import ENOUGH, PipelineTimes


class Pipeline:
    """Stages and links, each a resource that serves one micro-batch at a time."""

    def __init__(self, stages: int, costs: LinearCosts) -> None:
        self._free_s = [0.0] * (2 * stages - 1)
        self._costs = costs

    def run(self, tokens: int, now_s: float, context: int = 0) -> float:
        """Return when a micro-batch that goes in now comes out."""
        for place, free_s in enumerate(self._free_s):
            costs = self._costs
            if place % 2:
                took_s = costs.transfer_s(tokens)
            else:
                took_s = costs.compute_s(tokens) + costs.attend_s(context)
            now_s = self._free_s[place] = max(now_s, free_s) + took_s
        return now_s


def learn(
    stages: int, costs: LinearCosts, *, rounds: int = 12, seed: int = 0, longest: int = 0
) -> PipelineTimes:
    """Bursts of micro-batches of one size each, with pauses in which the pipeline runs empty."""
    rng, times = random.Random(seed), PipelineTimes(stages)
    now_s = 0.0
    for _ in range(rounds):
        pipeline, tokens = Pipeline(stages, costs), rng.randint(1, 200)
        context = rng.randint(0, longest)
        outs_s = []
        for _ in range(4):
            times.enter(tokens, now_s, context)
            outs_s.append(pipeline.run(tokens, now_s, context))
        for out_s in outs_s:
            times.leave(out_s)
        now_s = outs_s[-1] + 1.0
    return times


COSTS = st.builds(
    LinearCosts,
    compute_base_s=st.floats(0.001, 0.05),
    compute_token_s=st.floats(0.0, 1e-3),
    transfer_base_s=st.floats(0.0, 0.05),
    transfer_token_s=st.floats(0.0, 1e-3),
)


@given(stages=st.integers(2, 6), costs=COSTS, seed=st.integers(0, 99))
@examples(60)
def test_what_was_measured_is_what_the_costs_say(
    stages: int, costs: LinearCosts, seed: int
) -> None:
    """The way and the distance come out right, even where stages and links cannot be told apart."""
    found = learn(stages, costs, seed=seed).costs
    assert found is not None
    for tokens in (1, 100, 200):
        way_s = stages * costs.compute_s(tokens) + (stages - 1) * costs.transfer_s(tokens)
        # Lines that cross are two pieces, which one line only comes near to.
        if (costs.compute_base_s > costs.transfer_base_s) is (
            costs.compute_s(200) > costs.transfer_s(200)
        ):
            gap_s = max(costs.compute_s(tokens), costs.transfer_s(tokens))
            found_s = max(found.compute_s(tokens), found.transfer_s(tokens))
            assert found_s == pytest.approx(gap_s, rel=0.25)
            if costs.compute_base_s > costs.transfer_base_s:
                assert found.compute_s(tokens) == pytest.approx(gap_s, rel=1e-6)
                found_way_s = stages * gap_s + (stages - 1) * found.transfer_s(tokens)
                assert found_way_s == pytest.approx(way_s, rel=1e-6)


def test_stages_that_take_longer_than_links_come_out_exactly() -> None:
    costs = LinearCosts(0.02, 1e-4, 0.005, 2e-5)
    found = learn(4, costs).costs
    assert found is not None
    assert found.compute_base_s == pytest.approx(0.02)
    assert found.compute_token_s == pytest.approx(1e-4)
    assert found.transfer_base_s == pytest.approx(0.005)
    assert found.transfer_token_s == pytest.approx(2e-5)


@pytest.mark.parametrize('transfer_s', [0.005, 0.4])
def test_what_contexts_cost_comes_out_whichever_is_slower(transfer_s: float) -> None:
    costs = LinearCosts(0.02, 1e-4, transfer_s, 2e-5, context_token_s=3e-7)
    found = learn(4, costs, longest=20_000).costs
    assert found is not None
    assert found.compute_base_s == pytest.approx(0.02)
    assert found.compute_token_s == pytest.approx(1e-4)
    assert found.context_token_s == pytest.approx(3e-7)
    assert found.transfer_base_s == pytest.approx(transfer_s)
    assert found.transfer_token_s == pytest.approx(2e-5)


def test_where_nothing_varies_it_is_the_micro_batch_that_costs() -> None:
    """Not its tokens: else any number of micro-batches would do."""
    times, pipeline, now_s = PipelineTimes(2), Pipeline(2, LinearCosts(0.02)), 0.0
    for _ in range(ENOUGH):
        times.enter(8, now_s, 100)
        times.enter(8, now_s, 100)
        for out_s in [pipeline.run(8, now_s) for _ in range(2)]:
            times.leave(out_s)
            now_s = out_s + 1.0
    assert times.costs == LinearCosts(pytest.approx(0.02), 0.0, pytest.approx(0.0, abs=1e-9), 0.0)  # type: ignore[arg-type]


def test_stages_that_share_a_processor_are_a_link_that_serves_one_at_a_time() -> None:
    """Nothing overlaps: a micro-batch comes out a whole way after the one before it."""
    times, now_s = PipelineTimes(2), 0.0
    for _ in range(ENOUGH + 1):
        times.enter(10, now_s)
        times.enter(10, now_s)
        times.leave(now_s + 0.03)
        times.leave(now_s + 0.06)
        now_s += 0.1
    costs = times.costs
    assert costs is not None
    assert costs.compute_s(10) == pytest.approx(0.0, abs=1e-9)
    assert costs.transfer_s(10) == pytest.approx(0.03)


def test_too_little_says_nothing() -> None:
    times = PipelineTimes(2)
    for number in range(20):
        times.enter(5, float(number))
        assert times.inside == 1
        times.leave(number + 0.5)
    assert times.costs is None


def test_one_stage_is_no_pipeline() -> None:
    with pytest.raises(ConfigurationError, match='stages 1: expected at least 2'):
        PipelineTimes(1)
