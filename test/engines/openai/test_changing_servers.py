"""The openai engine's servers change while it serves, and requests say what belongs together."""

from __future__ import annotations

from typing import Any

import pytest
from support.engines.completion_server import CompletionServer
from support.engines.server_runs import GENERATIONS, Run, request

from timely_llm_ros.engines.commands import Reschedule
from timely_llm_ros.errors import ConfigurationError

pytestmark = pytest.mark.usefixtures('quick_retries')


async def test_every_request_of_a_generation_has_its_session_and_no_other_one() -> None:
    server = await CompletionServer().start()
    async with Run([server.url], {'max_running': 2}) as run:
        for number in GENERATIONS:
            run.engine.submit(request(number))
        await run.all_ended(GENERATIONS)
    prompts = {f'g{n}': run.ended[f'g{n}'].token_ids for n in GENERATIONS}
    assert {one.session for one in server.requests} == set(prompts)
    assert len(server.requests) > len(GENERATIONS)
    for name in prompts:
        first, *rest = (one for one in server.requests if one.session == name)
        for one in rest:
            assert one.body['prompt'][: len(first.body['prompt'])] == first.body['prompt']
    # What belongs to no generation has none, so that routers spread it.
    assert sum('x-session-id' in head for head in server.headers) == len(server.requests)
    await server.stop()


async def test_a_session_is_fit_for_a_header_whatever_a_generation_is_called() -> None:
    server = await CompletionServer().start()
    async with Run([server.url]) as run:
        stream = next(iter(run.engine._servers)).client.tokens(
            {'prompt': [1], 'max_tokens': 1, 'stop_token_ids': []}, session='a\r\nb: \u2603'
        )
        async for _ in stream:
            pass
    assert server.requests[0].session == 'a%0D%0Ab%3A%20%E2%98%83'
    await server.stop()


async def test_a_server_that_is_left_out_drains_and_what_it_had_goes_on_elsewhere(
    undisturbed_plans: dict[int, Any],
) -> None:
    old = await CompletionServer(step_s=0.005).start()
    new = await CompletionServer(step_s=0.005).start()
    async with Run([old.url], {'max_running': 2}) as run:
        for number in range(4):
            run.engine.submit(request(number))
        await run.until(lambda: old.running == 2)
        run.engine.set_servers([new.url])
        for number in (4, 5):
            run.engine.submit(request(number))
        await run.until(lambda: new.running)
        before = len(old.requests)
        await run.all_ended(GENERATIONS)
        assert {n: run.plan(n) for n in GENERATIONS} == undisturbed_plans
        # What was under way when the other one was there is the last that it was asked for.
        assert len(old.requests) == before
        await run.until(
            lambda: run.state and [server.url for server in run.state.servers] == [new.url]
        )
        assert run.other == []
        await old.stop()
        run.engine.submit(request(6))
        await run.all_ended([6])
        assert run.ended['g6'].reason != 'error'
    await new.stop()


async def test_a_draining_server_serves_on_until_another_one_is_well(
    undisturbed_plans: dict[int, Any],
) -> None:
    old = await CompletionServer().start()
    new = await CompletionServer().start()
    await new.stop()
    async with Run([old.url]) as run:
        run.engine.submit(request(0))
        run.engine.set_servers([new.url])
        await run.all_ended([0])
        assert run.plan(0) == undisturbed_plans[0]
        assert old.requests
        run.engine.submit(request(1))
        await run.until(lambda: run.state and run.state.servers[0].generations == 1)
        await new.start()
        await run.all_ended([1])
        assert run.plan(1) == undisturbed_plans[1]
    await old.stop()
    await new.stop()


async def test_without_a_server_of_the_new_list_generations_end_in_time() -> None:
    server = await CompletionServer().start()
    async with Run([server.url], {'give_up_s': 0.1}) as run:
        run.engine.set_servers(['http://127.0.0.1:9'])
        run.engine.submit(request(0))
        await run.all_ended([0])
        assert 'no server for 0.1 s' in run.ended['g0'].error
        run.engine.set_servers([server.url])
        await run.until(lambda: len(run.other) == 2)
        run.engine.submit(request(1))
        await run.all_ended([1])
        assert run.ended['g1'].reason != 'error'
    await server.stop()


async def test_a_server_that_is_listed_again_in_time_serves_on() -> None:
    server = await CompletionServer(step_s=0.005).start()
    async with Run([server.url], {'give_up_s': 0.05}) as run:
        run.engine.submit(request(0))
        await run.until(lambda: server.running)
        run.engine.set_servers(['http://127.0.0.1:9'])
        timers = [run.engine._give_up]
        run.engine.set_servers([server.url])
        timers.append(run.engine._give_up)
        assert timers[0] is not None
        assert timers[1] is None
        # Nor does a timer that was due just then end what a server has.
        run.engine._give_up_all()
        await run.all_ended([0])
        assert run.ended['g0'].reason != 'error'
        assert run.other == []
    await server.stop()


async def test_a_server_that_is_listed_again_too_late_ends_the_outage() -> None:
    server = await CompletionServer(step_s=0.005).start()
    async with Run([server.url], {'give_up_s': 60.0}) as run:
        run.engine.submit(request(0))
        await run.until(lambda: server.running)
        run.engine.set_servers(['http://127.0.0.1:9'])
        run.engine._give_up_all()
        run.engine.set_servers([server.url])
        assert [type(event).__name__ for event in run.other] == ['EngineFailed', 'EngineReady']
        run.engine.submit(request(1))
        await run.all_ended([1])
        assert run.ended['g1'].reason != 'error'
    await server.stop()


async def test_a_server_that_is_added_ranks_by_the_policy_of_now() -> None:
    first, second = await CompletionServer().start(), await CompletionServer().start()
    async with Run([first.url], {'policy': 'fcfs'}) as run:
        run.engine.send(Reschedule('srpt', run.engine._config.scheduling))
        run.engine.set_servers([first.url, second.url])
        added = run.engine._servers[1]
        assert added.core.generations._options.policy == 'srpt'
    await first.stop()
    await second.stop()


async def test_a_drained_server_whose_connections_fail_to_close_is_left_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = await CompletionServer().start(), await CompletionServer().start()
    async with Run([first.url, second.url]) as run:
        await run.until(lambda: run.engine._servers[1].well)
        client = run.engine._servers[0].client

        async def fail() -> None:
            raise OSError('reset')

        real = client.close
        monkeypatch.setattr(client, 'close', fail)
        run.engine.set_servers([second.url])
        await run.until(lambda: len(run.engine._servers) == 1)
        await run.until(lambda: not run.engine._closing)
        await real()
    await first.stop()
    await second.stop()


@pytest.mark.parametrize('urls', [[], ['ftp://a'], ['http://a', 'http://a/']])
async def test_a_list_that_cannot_be_used_changes_nothing(urls: list[str]) -> None:
    server = await CompletionServer().start()
    async with Run([server.url]) as run:
        with pytest.raises(ConfigurationError, match='server'):
            run.engine.set_servers(urls)
        run.engine.submit(request(0))
        await run.all_ended([0])
        assert run.ended['g0'].reason != 'error'
    await server.stop()
