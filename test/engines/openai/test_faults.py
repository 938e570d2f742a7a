"""The openai engine where servers go wrong: nothing is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.engines.completion_server import CompletionServer, Fault
from support.engines.server_runs import GENERATIONS, Run, request

from timely_llm_ros.engines.engine import EngineFailed, EngineReady
from timely_llm_ros.engines.openai import retries
from timely_llm_ros.scheduling.options import SchedulingOptions

pytestmark = pytest.mark.usefixtures('quick_retries')

FAULTS = st.builds(
    Fault,
    st.sampled_from(['cut', 'half', 'error', 'garbage', '500', '503', 'slow', 'hang']),
    st.integers(0, 12),
)


@given(
    faults=st.lists(
        st.dictionaries(st.integers(0, 12), FAULTS, max_size=5), min_size=1, max_size=3
    ),
    max_running=st.integers(1, 4),
    interrupts=st.booleans(),
    touches=st.lists(st.tuples(st.sampled_from('sr'), st.sampled_from(GENERATIONS)), max_size=8),
)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_is_cut_the_plans_are_those_of_an_undisturbed_run(
    undisturbed_plans: dict[int, Any],
    faults: list[dict[int, Fault]],
    max_running: int,
    interrupts: bool,
    touches: list[tuple[str, int]],
) -> None:
    """Faults by server and number of request; suspended and resumed generations meanwhile."""

    async def run() -> None:
        servers = [await CompletionServer(fault=by_number.get).start() for by_number in faults]
        options = {
            'max_running': max_running,
            'silence_s': 0.2,
            'scheduling': SchedulingOptions(interrupts=interrupts),
        }
        async with Run([server.url for server in servers], options) as run:
            for number in GENERATIONS:
                run.engine.submit(request(number))
            for kind, number in touches:
                await asyncio.sleep(0.003)
                touch = run.engine.suspend if kind == 's' else run.engine.resume
                touch(f'g{number}')
            await asyncio.sleep(0.01)
            for number in GENERATIONS:
                run.engine.resume(f'g{number}')
            await run.all_ended(GENERATIONS)
            for number in GENERATIONS:
                assert run.plan(number) == undisturbed_plans[number], number
            for server in servers:
                assert server.most_running <= max_running + len(GENERATIONS) * 2
        for server in servers:
            await server.stop()

    asyncio.run(run())


async def test_a_dead_server_loses_nothing_and_is_back_when_it_is_back(
    undisturbed_plans: dict[int, Any], caplog: pytest.LogCaptureFixture
) -> None:
    first = await CompletionServer(step_s=0.01).start()
    second = await CompletionServer(step_s=0.01).start()
    async with Run([first.url, second.url], {'max_running': 3}) as run:
        await run.until(lambda: run.state and all(s.well for s in run.state.servers))
        for number in GENERATIONS:
            run.engine.submit(request(number))
        await run.until(lambda: first.running and second.running)
        with caplog.at_level(logging.WARNING):
            await first.stop()
            await run.all_ended(GENERATIONS)
        assert {n: run.plan(n) for n in GENERATIONS} == undisturbed_plans
        assert 'go on elsewhere' in caplog.text
        assert run.other == []
        await run.first_server_is(well=False)
        assert run.state is not None
        lost = run.state.servers[0]
        assert (lost.url, lost.generations, lost.losses) == (first.url, 0, 1)
        assert first.url in lost.error
        await first.start()
        await run.first_server_is(well=True)
    await first.stop()
    await second.stop()


async def test_without_any_server_generations_wait_for_one(
    undisturbed_plans: dict[int, Any],
) -> None:
    server = await CompletionServer(step_s=0.005).start()
    # As many at once as may be: how many gain by it depends on how fast this machine is now.
    options = {'scheduling': SchedulingOptions(admission='fixed')}
    async with Run([server.url], options) as run:
        for number in GENERATIONS:
            run.engine.submit(request(number))
        await run.until(lambda: len(server.requests) == len(GENERATIONS))
        await server.stop()
        await run.first_server_is(well=False)
        assert not run.ended
        await server.start()
        await run.all_ended(GENERATIONS)
        assert {n: run.plan(n) for n in GENERATIONS} == undisturbed_plans
        assert run.other == []
    await server.stop()


async def test_after_long_without_a_server_it_fails_and_comes_back() -> None:
    server = await CompletionServer(step_s=0.01).start()
    async with Run([server.url], {'give_up_s': 0.1}) as run:
        run.engine.submit(request(0))
        await run.until(lambda: server.requests)
        await server.stop()
        await run.all_ended([0])
        assert run.ended['g0'].reason == 'error'
        assert 'no server for 0.1 s' in run.ended['g0'].error
        assert server.url in run.ended['g0'].error
        run.engine.submit(request(1))
        await run.all_ended([1])
        assert run.ended['g1'].error == 'the engine is not running'
        await server.start()
        await run.until(lambda: len(run.other) == 2)
        assert isinstance(run.other[0], EngineFailed)
        assert isinstance(run.other[1], EngineReady)
        run.engine.submit(request(2))
        await run.all_ended([2])
        assert run.ended['g2'].reason != 'error'
    await server.stop()


async def test_a_silent_server_is_lost_though_it_accepts_connections(
    undisturbed_plans: dict[int, Any],
) -> None:
    silent = await CompletionServer(fault=lambda _: Fault('hang', 3)).start()
    other = await CompletionServer().start()
    async with Run([silent.url, other.url], {'silence_s': 0.5}) as run:
        await run.until(lambda: run.state and all(s.well for s in run.state.servers))
        for number in GENERATIONS:
            run.engine.submit(request(number))
        await run.all_ended(GENERATIONS)
        assert {n: run.plan(n) for n in GENERATIONS} == undisturbed_plans
    await silent.stop()
    await other.stop()


async def test_an_ill_server_gets_nothing() -> None:
    ill = await CompletionServer().start()
    other = await CompletionServer().start()
    async with Run([ill.url, other.url]) as run:
        await run.until(lambda: run.state and all(s.well for s in run.state.servers))
        ill.health = 503
        await run.first_server_is(well=False)
        for number in GENERATIONS:
            run.engine.submit(request(number))
        await run.all_ended(GENERATIONS)
        assert not ill.requests
    await ill.stop()
    await other.stop()


async def test_a_request_that_no_server_survives_ends(undisturbed_plans: dict[int, Any]) -> None:
    servers = [await CompletionServer(fault=lambda _: Fault('500')).start() for _ in range(2)]
    async with Run([server.url for server in servers]) as run:
        run.engine.submit(request(0))
        await run.all_ended([0])
        assert run.ended['g0'].reason == 'error'
        assert 'in trouble' in run.ended['g0'].error
        assert sum(len(server.requests) for server in servers) == retries.MOST_FRUITLESS
        for server in servers:
            server.fault = lambda _: None
        run.engine.submit(request(1))
        await run.all_ended([1])
        assert run.plan(1) == undisturbed_plans[1]
    for server in servers:
        await server.stop()
