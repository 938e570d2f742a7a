"""A server's batches and its prefix cache, on virtual time."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.operation.batcher import BLOCK, Asked, Batcher, KeptBlocks
from timely_llm_ros.engines.simulated import StepTimeModel
from timely_llm_ros.virtual_time import run_virtual

STEP_S, TOKEN_S, RESUME_S = 0.02, 0.001, 0.004
PACE = StepTimeModel(STEP_S, batch_factor=0.0, prefill_token_s=TOKEN_S, resume_s=RESUME_S)
STOP = 1


@dataclass(frozen=True)
class Call:
    """A request: when it comes, what it says, and after how many tokens its client hangs up."""

    at_s: float
    prompt: tuple[int, ...] = (7,)
    follows: tuple[int, ...] = (5, 5, 5)
    goes_on: bool = False
    hangs_up: int | None = None


def serve(
    calls: list[Call], places: int = 4, kv_tokens: int = 1 << 16
) -> tuple[list[list[tuple[float, int, str]]], int]:
    """Return what each call was told and when, and how many tokens of prompts were computed."""

    async def one(batcher: Batcher, call: Call) -> list[tuple[float, int, str]]:
        await asyncio.sleep(call.at_s)
        asked = Asked(list(call.prompt), call.follows, {STOP}, call.goes_on)
        told: list[tuple[float, int, str]] = []
        batcher.ask(asked)
        while len(told) != call.hangs_up and not (told and told[-1][2]):
            token, finish = await asked.told.get()
            told.append((asyncio.get_running_loop().time(), token, finish))
        batcher.leave(asked)
        return told

    async def main() -> tuple[list[list[tuple[float, int, str]]], int]:
        batcher = Batcher(PACE, places, kv_tokens)
        steps = asyncio.create_task(batcher.run())
        found = await asyncio.gather(*(one(batcher, call) for call in calls))
        steps.cancel()
        return found, batcher.computed

    return run_virtual(main())


def test_a_request_ends_at_a_stop_or_when_it_has_all_that_it_asked_for() -> None:
    (stopped, whole), _ = serve([Call(0.0, follows=(5, STOP, 5)), Call(0.0, follows=(5, 6, 7, 8))])
    assert [(token, finish) for _, token, finish in stopped] == [(5, ''), (STOP, 'stop')]
    assert [(token, finish) for _, token, finish in whole] == [
        (5, ''), (6, ''), (7, ''), (8, 'length')
    ]  # fmt: skip


def test_steps_take_what_the_engine_s_do_and_who_comes_meanwhile_joins_the_next_one() -> None:
    (first, second), _ = serve([Call(0.0, (7,) * 10), Call(0.001, (8,) * 10)])
    begun_s = STEP_S + 10 * TOKEN_S
    assert [at_s for at_s, *_ in first] == pytest.approx(
        [begun_s, 2 * begun_s, 2 * begun_s + STEP_S]
    )
    assert [at_s for at_s, *_ in second] == pytest.approx(
        [2 * begun_s, 2 * begun_s + STEP_S, 2 * begun_s + 2 * STEP_S]
    )


def test_who_finds_no_place_waits_for_one_in_the_order_of_coming() -> None:
    found, _ = serve([Call(0.0), Call(0.001, follows=(5,) * 9), Call(0.003), Call(0.002)], places=1)
    ends = [told[-1][0] for told in found]
    assert sorted(ends) == [ends[0], ends[1], ends[3], ends[2]]
    assert [told[0][0] - STEP_S - TOKEN_S for told in (found[1], found[3], found[2])] == (
        pytest.approx(sorted(ends)[:3])
    )


def test_who_hangs_up_frees_the_place_and_who_waits_is_never_computed() -> None:
    gives_up = Call(0.001, (8,) * 10, hangs_up=0)
    found, computed = serve(
        [Call(0.0, follows=(5,) * 99, hangs_up=2), gives_up, Call(0.002, (9,))], places=1
    )
    assert found[1] == []
    # The step that was under way goes on without it.
    assert found[2][0][0] == pytest.approx(found[0][-1][0] + STEP_S + STEP_S + TOKEN_S)
    assert computed == 2


@pytest.mark.parametrize('held', [0, BLOCK - 1, BLOCK, 2 * BLOCK + 3])
def test_who_goes_on_computes_only_what_whole_blocks_do_not_hold(held: int) -> None:
    prompt, written = tuple(range(100, 100 + held + 1)), (2, 3, STOP)
    calls = [Call(0.0, prompt, written), Call(1.0, (*prompt, *written), goes_on=True)]
    (first, second), computed = serve(calls)
    # The latest token, which was never computed, is behind the blocks.
    cached = (held + 3) // BLOCK * BLOCK
    assert computed == held + 1 + held + 4 - cached
    begins_s = STEP_S + RESUME_S + (held + 4 - cached) * TOKEN_S
    assert second[0][0] == pytest.approx(1.0 + begins_s)
    assert len(first) == 3


def test_where_its_kv_is_not_all_of_it_is_computed() -> None:
    context = tuple(range(100, 100 + 3 * BLOCK))
    _, computed = serve([Call(0.0, context, goes_on=True)])
    assert computed == len(context)


IDS = st.lists(st.integers(0, 1), max_size=5 * BLOCK)


@given(st.lists(IDS, max_size=6), IDS.filter(bool))
def test_what_is_cached_is_the_longest_common_beginning_in_blocks(
    kept: list[list[int]], ids: list[int]
) -> None:
    blocks = KeptBlocks(1 << 16)
    for context in kept:
        blocks.keep(context)
    common = 0
    for context in kept:
        same = itertools.takewhile(
            lambda pair: pair[0] == pair[1], zip(context, ids[:-1], strict=False)
        )
        common = max(common, len(list(same)) // BLOCK * BLOCK)
    assert blocks.cached(ids) == common < len(ids)


@given(st.lists(IDS, min_size=1, max_size=6), st.integers(0, 8))
def test_no_more_is_kept_than_there_is_room_for_and_the_latest_beginning_last(
    kept: list[list[int]], most: int
) -> None:
    blocks = KeptBlocks(most * BLOCK)
    for context in kept:
        blocks.keep(context)
    assert len(blocks._kept) <= most
    assert blocks.cached([*kept[-1], 2]) == min(len(kept[-1]) // BLOCK, most) * BLOCK


CALLS = st.builds(
    Call,
    at_s=st.integers(0, 20).map(lambda n: n * STEP_S / 3),
    prompt=st.lists(st.integers(2, 4), min_size=1, max_size=2 * BLOCK).map(tuple),
    follows=st.lists(st.integers(STOP, 4), min_size=1, max_size=6).map(tuple),
    hangs_up=st.none() | st.integers(1, 3),
)


@given(st.lists(CALLS, max_size=8), st.integers(1, 3))
def test_everybody_is_told_what_follows_and_never_more_than_there_are_places(
    calls: list[Call], places: int
) -> None:
    found, computed = serve(calls, places)
    for call, told in zip(calls, found, strict=True):
        tokens = [token for _, token, _ in told]
        stop = call.follows.index(STOP) + 1 if STOP in call.follows else len(call.follows)
        most = stop if call.hangs_up is None else min(stop, call.hangs_up)
        assert tokens == list(call.follows[:most])
    at_once = [at_s for told in found for at_s, *_ in told]
    assert max(map(at_once.count, at_once), default=0) <= places
    assert computed <= sum(len(call.prompt) for call in calls)
