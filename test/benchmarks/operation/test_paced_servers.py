"""The engine ``openai`` on paced servers, over real HTTP."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines.engine_run import EngineRun

from benchmarks.operation.batcher import Asked, Batcher
from benchmarks.operation.paced_servers import (
    END,
    SIZE,
    PacedEngine,
    PlanCodec,
    front,
    paced_servers,
)
from benchmarks.workloads import PROFILES, TIMED, WORKLOADS, compose, plan_tokens
from timely_llm_ros.engines import GenerationRequest, SimulatedConfig
from timely_llm_ros.engines.simulated import StepTimeModel
from timely_llm_ros.skills import Scene, build_prompt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

NUMBERS = range(8)
CONFIG = SimulatedConfig(max_running=2, step_time=StepTimeModel(decode_s=0.002))
PIECES = {
    f'g{number}': [*[''] * 3, f'act({1000 + number});', *[''] * 4, 'act(0);', *[''] * 5, 'act(7);']
    for number in NUMBERS
}
PLANS = {name: PlanCodec().plan(name, pieces) for name, pieces in PIECES.items()}
NAMES = {tuple(plan): name for name, plan in PLANS.items()}


def request(number: int) -> GenerationRequest:
    prompt = build_prompt(TIMED, Scene(()), 'look')
    utility = PROFILES[1].utility
    return GenerationRequest(
        f'g{number}', prompt, TIMED, Scene(()), utility, time.monotonic(), max_tokens=16
    )


class Counted(Batcher):
    """A batcher that notes whose requests it got."""

    def __init__(self) -> None:
        super().__init__(CONFIG.paced, CONFIG.max_running, 1 << 14)
        self.of: list[str] = []
        self.left = asyncio.Event()

    def ask(self, asked: Asked) -> None:
        written = [token for token in asked.ids if token < SIZE]
        self.of.append(NAMES[(*written, *asked.follows)])
        super().ask(asked)

    def leave(self, asked: Asked) -> None:
        super().leave(asked)
        self.left.set()


@pytest.fixture
async def fronts() -> AsyncIterator[Callable[..., Any]]:
    async with AsyncExitStack() as stack:

        async def begin(*groups: list[Counted]) -> list[str]:
            return [await stack.enter_async_context(front(group, PLANS)) for group in groups]

        yield begin


async def written(urls: list[str], each: int) -> dict[str, list[str]]:
    """Have all plans written; return their segments."""
    async with EngineRun(PacedEngine(urls, CONFIG, each)) as run:
        assert run.info.tokenizer == ''
        for number in NUMBERS:
            run.engine.submit(request(number))
        await run.all_ended(NUMBERS)
        assert {end.reason for end in run.ended.values()} == {'stop'}
        assert {name: list(end.token_ids) for name, end in run.ended.items()} == {
            name: plan[:-1] for name, plan in PLANS.items()
        }
        return {name: [it.segment.text for it in run.segments[name]] for name in PLANS}


async def test_plans_are_those_of_the_workload_and_each_stays_at_its_server(
    fronts: Callable[..., Any],
) -> None:
    servers = [Counted(), Counted()]
    found = await written(await fronts(*[[server] for server in servers]), 1)
    assert found == {name: [it for it in pieces if it] for name, pieces in PIECES.items()}
    assert set(servers[0].of).isdisjoint(servers[1].of)
    assert {*servers[0].of, *servers[1].of} == set(PLANS)
    # More plans than places: they take turns, each with a request of its own.
    assert len(servers[0].of) > len(set(servers[0].of))


async def test_behind_one_address_each_request_goes_to_the_next_server(
    fronts: Callable[..., Any],
) -> None:
    servers = [Counted(), Counted()]
    found = await written(await fronts(servers), 2)
    assert found == {name: [it for it in pieces if it] for name, pieces in PIECES.items()}
    assert 0 <= len(servers[0].of) - len(servers[1].of) <= 1
    assert not set(servers[0].of).isdisjoint(servers[1].of)


async def test_a_client_that_hangs_up_ends_its_request(fronts: Callable[..., Any]) -> None:
    server = Counted()
    (url,) = await fronts([server])
    body = {'prompt': [SIZE], 'max_tokens': 16, 'stop_token_ids': [END], 'stream': True}
    headers = {'X-Session-ID': 'g0'}
    async with httpx2.AsyncClient(base_url=url) as client:
        async with client.stream('POST', '/v1/completions', json=body, headers=headers) as response:
            await anext(response.aiter_raw())
        async with asyncio.timeout(30.0):
            await server.left.wait()
    assert not server._running


async def test_in_a_process_of_their_own_they_say_what_they_computed() -> None:
    async with paced_servers(CONFIG, PIECES, 2, balanced=False) as servers:
        assert len(servers.urls) == 2
        await written(servers.urls, 1)
    prompt = len(PlanCodec().fixed_ids(request(0).prompt))
    assert servers.computed > prompt
    async with paced_servers(CONFIG, PIECES, 2, balanced=True) as servers:
        assert len(servers.urls) == 1


@given(st.sampled_from(['wid1', 'wid3']), st.integers(0, 1000))
def test_a_plan_has_as_many_tokens_as_the_simulated_engine_s_and_its_text(
    name: str, seed: int
) -> None:
    codec = PlanCodec()
    for task in compose(replace(WORKLOADS[name], duration_s=20.0), seed).tasks:
        pieces = plan_tokens(task)
        plan = codec.plan(task.kind, pieces)
        assert plan[-1] == END
        assert codec.decode(plan) == ''.join(pieces)
        assert [';' in codec.decode([token]) for token in plan[:-1]] == [*map(bool, pieces)]
