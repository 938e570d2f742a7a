"""The openai engine where servers go wrong: nothing is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support.engines.completion_server import CompletionServer, Fault
from support.engines.server_runs import GENERATIONS, Run, request
from support.examples import examples

from timely_llm_ros.engines.engine import EngineFailed, EngineReady
from timely_llm_ros.engines.openai import retries
from timely_llm_ros.engines.openai.exchange import retry_after_s
from timely_llm_ros.errors import ServerBusyError
from timely_llm_ros.scheduling.options import SchedulingOptions

pytestmark = pytest.mark.usefixtures('quick_retries')

FAULTS = st.builds(
    Fault,
    st.sampled_from(
        ['cut', 'half', 'error', 'garbage', '429', '500', '503', 'slow', 'late', 'hang']
    ),
    st.integers(0, 12),
    st.sampled_from(['', '0', '1', '3600', 'Wed, 21 Oct 2065 07:28:00 GMT', 'soon']),
)


@given(
    faults=st.lists(
        st.dictionaries(st.integers(0, 12), FAULTS, max_size=5), min_size=1, max_size=3
    ),
    max_running=st.integers(1, 4),
    interrupts=st.booleans(),
    drains=st.booleans(),
    touches=st.lists(st.tuples(st.sampled_from('sr'), st.sampled_from(GENERATIONS)), max_size=8),
)
@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_cut_the_plans_are_those_of_an_undisturbed_run(
    undisturbed_plans: dict[int, Any],
    faults: list[dict[int, Fault]],
    max_running: int,
    interrupts: bool,
    drains: bool,
    touches: list[tuple[str, int]],
) -> None:
    """Faults by server and number of request; suspensions and changed servers meanwhile."""

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
            if drains:
                run.engine.set_servers([servers[-1].url])
                await asyncio.sleep(0.01)
                run.engine.set_servers([server.url for server in servers])
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


@pytest.mark.parametrize(
    ('status', 'retry_after'),
    [('429', '1'), ('429', 'Wed, 21 Oct 2065 07:28:00 GMT'), ('503', '1'), ('503', '')],
)
async def test_a_request_that_is_put_off_waits_alone(
    undisturbed_plans: dict[int, Any], status: str, retry_after: str
) -> None:
    """The server takes the first and no other one until it has all its tokens."""
    free = asyncio.Event()

    def fault(number: int) -> Fault | None:
        return None if number == 0 or free.is_set() else Fault(status, 0, retry_after)

    server = await CompletionServer(step_s=0.005, fault=fault).start()
    async with Run([server.url], {'mode': 'stream'}) as run:
        run.engine.submit(request(0))
        await run.until(lambda: server.running)
        for number in (1, 2):
            run.engine.submit(request(number))
        await run.until(lambda: len(server.requests) > retries.MOST_FRUITLESS + 3)
        await run.all_ended([0])
        assert run.plan(0) == undisturbed_plans[0]
        assert not {'g1', 'g2'} & set(run.ended)
        free.set()
        await run.all_ended([1, 2])
        assert [run.plan(number) for number in (1, 2)] == [undisturbed_plans[n] for n in (1, 2)]
        # Put off again and again, it was never thought to be lost.
        assert run.state is not None
        assert [(it.well, it.losses) for it in run.state.servers] == [(True, 0)]
        assert run.other == []
    await server.stop()


async def test_a_request_that_is_put_off_for_too_long_ends() -> None:
    server = await CompletionServer(fault=lambda _: Fault('429', 0, '1')).start()
    async with Run([server.url], {'give_up_s': 0.2}) as run:
        run.engine.submit(request(0))
        await run.all_ended([0])
        assert run.ended['g0'].reason == 'error'
        assert 'put off for 0.2 s' in run.ended['g0'].error
    await server.stop()


async def test_a_server_that_is_busy_for_long_is_not_waited_for_where_another_is_free(
    undisturbed_plans: dict[int, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, 'LAST_PAUSE_S', 3600.0)
    busy = await CompletionServer(fault=lambda _: Fault('429', 0, '3600')).start()
    free = await CompletionServer().start()
    async with Run([busy.url, free.url]) as run:
        await run.until(lambda: run.state and all(s.well for s in run.state.servers))
        for number in GENERATIONS:
            run.engine.submit(request(number))
        await run.all_ended(GENERATIONS)
        assert {n: run.plan(n) for n in GENERATIONS} == undisturbed_plans
        assert run.state is not None
        assert [server.losses for server in run.state.servers] == [0, 0]
        # None asked a second time before it went elsewhere.
        asked = [one.session for one in busy.requests]
        assert asked
        assert len(set(asked)) == len(asked)
    await busy.stop()
    await free.stop()


@pytest.mark.parametrize('kind', ['cut', 'half', 'error', '500'])
async def test_a_stream_that_breaks_once_is_repeated_where_it_broke(
    undisturbed_plans: dict[int, Any], kind: str
) -> None:
    """Its KV is there; the other server has none of it."""
    first = await CompletionServer(fault={1: Fault(kind, 3)}.get).start()
    second = await CompletionServer().start()
    async with Run([first.url], {'mode': 'stream'}) as run:
        run.engine.submit(request(0))
        await run.all_ended([0])
        run.engine.set_servers([first.url, second.url])
        run.engine.submit(request(1))
        await run.all_ended([1])
        assert run.plan(1) == undisturbed_plans[1]
        await run.until(lambda: run.state is not None)
        assert run.state is not None
        assert run.state.servers[0].losses == 0
        again, broken = first.requests[2], first.requests[1]
        assert again.body['prompt'] == broken.body['prompt'] + broken.sent
        assert not second.requests
    await first.stop()
    await second.stop()


async def test_one_failed_question_for_its_health_does_not_lose_a_server() -> None:
    server = await CompletionServer(step_s=0.005).start()
    async with Run([server.url], {'health_period_s': 0.05}) as run:
        run.engine.submit(request(0))
        await run.until(lambda: server.running)
        asked = server.asked
        server.ill_answers = 1
        await run.until(lambda: server.asked > asked + 3)
        await run.all_ended([0])
        assert run.state is not None
        assert run.state.servers[0].losses == 0
        server.ill_answers = 2
        await run.until(lambda: run.state is not None and run.state.servers[0].losses == 1)
    await server.stop()


@pytest.mark.parametrize(
    ('text', 'seconds'),
    [
        ('7', 7.0),
        (' 0 ', 0.0),
        ('Sat, 01 Jan 2000 00:01:00 GMT', 60.0),
        ('Sat, 01 Jan 2000 00:01:00', 60.0),
        ('Fri, 31 Dec 1999 23:59:00 GMT', 0.0),
        ('-1', None),
        ('nan', None),
        ('soon', None),
        ('', None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, seconds: float | None) -> None:
    assert retry_after_s(text, datetime(2000, 1, 1, tzinfo=UTC)) == seconds


@given(
    tries=st.integers(1, 2000),
    asked_s=st.none() | st.floats(0, 1e9),
    due_s=st.floats(-1e6, 1e6),
)
def test_pauses_are_bounded_and_never_longer_than_asked_by_more_than_a_quarter(
    tries: int, asked_s: float | None, due_s: float
) -> None:
    trouble = retries.Trouble(0.0, tries=tries)
    error = ServerBusyError('', asked_s)
    pause_s = trouble.pause_s(error, begun=False, first_s=0.25, due_s=due_s)
    assert 0 <= pause_s <= retries.LAST_PAUSE_S
    assert asked_s is None or pause_s <= 1.25 * asked_s
    # Where a segment is due, it is asked for then, unless the server is to be spared.
    usual_s = 0.25 * 2.0 ** min(tries - 1, 16)
    assert pause_s <= max(due_s, usual_s)
