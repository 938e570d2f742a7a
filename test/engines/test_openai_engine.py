"""The openai engine against a server on loopback: what goes wrong, nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import logging
import shutil
import ssl
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from completion_server import CompletionServer, Fault
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from server_runs import Run, request, undisturbed

from timely_llm_ros.engines import openai_server
from timely_llm_ros.engines.engine import EngineFailed, EngineReady
from timely_llm_ros.engines.openai_engine import OpenAIEngine
from timely_llm_ros.engines.openai_options import API_KEY_VARIABLE, ServerOptions
from timely_llm_ros.errors import ConfigurationError, ModelLoadError

if TYPE_CHECKING:
    from pathlib import Path

GENERATIONS = range(6)


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_server, 'FIRST_RETRY_S', 0.01)
    monkeypatch.setattr(openai_server, 'LAST_RETRY_S', 0.1)
    monkeypatch.delenv(API_KEY_VARIABLE, raising=False)


@pytest.fixture(scope='module')
def expected() -> dict[int, Any]:
    """How the generations go undisturbed."""

    async def run() -> dict[int, Any]:
        server = await CompletionServer().start()
        try:
            return await undisturbed(server.url, GENERATIONS)
        finally:
            await server.stop()

    return asyncio.run(run())


def test_the_undisturbed_runs_are_worth_comparing_with(expected: dict[int, Any]) -> None:
    assert len({plan[2] for plan in expected.values()}) == len(GENERATIONS)
    assert sum(len(plan[3]) for plan in expected.values()) >= 15
    assert any(segment.awaits_value for plan in expected.values() for segment in plan[3])


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
    expected: dict[int, Any],
    faults: list[dict[int, Fault]],
    max_running: int,
    interrupts: bool,
    touches: list[tuple[str, int]],
) -> None:
    """Faults by server and number of request; suspended and resumed generations meanwhile."""

    async def run() -> None:
        from timely_llm_ros.scheduling.options import SchedulingOptions

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
                assert run.plan(number) == expected[number], number
            for server in servers:
                assert server.most_running <= max_running + len(GENERATIONS) * 2
        for server in servers:
            await server.stop()

    asyncio.run(run())


async def test_connections_are_used_again() -> None:
    server = await CompletionServer().start()
    async with Run([server.url], {'max_running': 2}) as run:
        for number in GENERATIONS:
            run.engine.submit(request(number))
        await run.all_ended(GENERATIONS)
        assert server.most_running <= 3
        # Held at a blocking call, a request is left; every other one ended by itself.
        left = sum(
            segment.segment.awaits_value for plan in run.segments.values() for segment in plan
        )
        assert len(server.requests) > 15
        assert server.connections <= 4 + left
    await server.stop()


async def test_a_dead_server_loses_nothing_and_is_back_when_it_is_back(
    expected: dict[int, Any], caplog: pytest.LogCaptureFixture
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
        assert {n: run.plan(n) for n in GENERATIONS} == expected
        assert 'go on elsewhere' in caplog.text
        assert run.other == []
        await run.until(lambda: run.state and not run.state.servers[0].well)
        assert run.state is not None
        lost = run.state.servers[0]
        assert (lost.url, lost.generations, lost.losses) == (first.url, 0, 1)
        assert first.url in lost.error
        await first.start()
        await run.until(lambda: run.state and run.state.servers[0].well)
    await first.stop()
    await second.stop()


async def test_without_any_server_generations_wait_for_one(expected: dict[int, Any]) -> None:
    server = await CompletionServer(step_s=0.005).start()
    async with Run([server.url]) as run:
        for number in GENERATIONS:
            run.engine.submit(request(number))
        await run.until(lambda: len(server.requests) == len(GENERATIONS))
        await server.stop()
        await run.until(lambda: run.state and not run.state.servers[0].well)
        assert not run.ended
        await server.start()
        await run.all_ended(GENERATIONS)
        assert {n: run.plan(n) for n in GENERATIONS} == expected
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
    expected: dict[int, Any],
) -> None:
    silent = await CompletionServer(fault=lambda number: Fault('hang', 3)).start()
    other = await CompletionServer().start()
    async with Run([silent.url, other.url], {'silence_s': 0.5}) as run:
        await run.until(lambda: run.state and all(s.well for s in run.state.servers))
        for number in GENERATIONS:
            run.engine.submit(request(number))
        await run.all_ended(GENERATIONS)
        assert {n: run.plan(n) for n in GENERATIONS} == expected
    await silent.stop()
    await other.stop()


async def test_an_ill_server_gets_nothing() -> None:
    ill = await CompletionServer().start()
    other = await CompletionServer().start()
    async with Run([ill.url, other.url]) as run:
        await run.until(lambda: run.state and all(s.well for s in run.state.servers))
        ill.health = 503
        await run.until(lambda: run.state and not run.state.servers[0].well)
        for number in GENERATIONS:
            run.engine.submit(request(number))
        await run.all_ended(GENERATIONS)
        assert not ill.requests
    await ill.stop()
    await other.stop()


async def test_a_request_that_no_server_survives_ends(expected: dict[int, Any]) -> None:
    servers = [await CompletionServer(fault=lambda number: Fault('500')).start() for _ in range(2)]
    async with Run([server.url for server in servers]) as run:
        run.engine.submit(request(0))
        await run.all_ended([0])
        assert run.ended['g0'].reason == 'error'
        assert 'in trouble' in run.ended['g0'].error
        assert sum(len(server.requests) for server in servers) == openai_server.MOST_FRUITLESS
        for server in servers:
            server.fault = lambda number: None
        run.engine.submit(request(1))
        await run.all_ended([1])
        assert run.plan(1) == expected[1]
    for server in servers:
        await server.stop()


async def test_new_generations_go_where_they_are_complete_soonest() -> None:
    slow = await CompletionServer(step_s=0.05).start()
    quick = await CompletionServer(step_s=0.001).start()
    async with Run([slow.url, quick.url]) as run:
        await run.until(lambda: run.state and all(s.well for s in run.state.servers))
        run.engine.submit(request(0))
        run.engine.submit(request(1))
        await run.all_ended([0, 1])
        assert len(slow.requests) == len(quick.requests) == 1
        for number in range(2, 6):
            run.engine.submit(request(number))
        await run.all_ended(range(2, 6))
        assert len(slow.requests) == 1
        # Started again it may be another machine: it is tried once more.
        await slow.stop()
        await run.until(lambda: run.state and not run.state.servers[0].well)
        await slow.start()
        await run.until(lambda: run.state and run.state.servers[0].well)
        run.engine.submit(request(6))
        await run.all_ended([6])
        assert len(slow.requests) == 2
    await slow.stop()
    await quick.stop()


async def test_cancelling_ends_the_request() -> None:
    server = await CompletionServer(step_s=0.01).start()
    async with Run([server.url]) as run:
        run.engine.submit(request(0))
        await run.until(lambda: server.running)
        run.engine.cancel('g0')
        run.engine.cancel('unknown')
        await run.all_ended([0])
        assert run.ended['g0'].reason == 'canceled'
        await run.until(lambda: not server.running)
    await server.stop()


async def test_a_held_generation_gets_nothing_until_it_is_resumed(
    expected: dict[int, Any],
) -> None:
    held = next(n for n, plan in expected.items() if any(s.awaits_value for s in plan[3]))
    server = await CompletionServer().start()
    async with Run([server.url], answers=False) as run:
        run.engine.submit(request(held))
        await run.until(lambda: run.state and run.state.held)
        count = len(server.requests)
        run.engine.resume(f'g{held}')
        run.engine.suspend(f'g{held}')
        run.engine.robot_idle_at(f'g{held}', 1.0)
        await run.until(lambda: not server.running)
        assert len(server.requests) == count
        run.answers = True
        run.engine.resume(f'g{held}', 'true')
        await run.all_ended([held])
        assert run.plan(held) == expected[held]
    await server.stop()


async def test_a_full_context_ends_the_generation() -> None:
    server = await CompletionServer().start()
    length = len(server_prompt(0))
    server.context_limit = length + 12
    async with Run([server.url]) as run:
        run.engine.submit(request(0, max_tokens=400))
        await run.all_ended([0])
        assert (run.ended['g0'].reason, run.ended['g0'].tokens) == ('length', 12)
        server.context_limit = length - 1
        await server.stop()
        await run.until(lambda: run.state and not run.state.servers[0].well)
        await server.start()
        await run.until(lambda: run.state and run.state.servers[0].well)
        run.engine.submit(request(3))
        await run.all_ended([3])
        assert run.ended['g3'].reason == 'error'
        assert 'prompt of' in run.ended['g3'].error
    await server.stop()


def server_prompt(number: int) -> list[int]:
    from completion_server import TEXTS

    prompt = request(number).prompt
    return [*TEXTS.encode(prompt.fixed, beginning=True), *TEXTS.encode(prompt.body)]


async def test_what_servers_cannot_do_is_refused() -> None:
    server = await CompletionServer().start()
    async with Run([server.url]) as run:
        run.engine.submit(request(0, forced_token_ids=(1, 2)))
        await run.all_ended([0])
        assert 'forced_token_ids' in run.ended['g0'].error
        run.engine.submit(request(1, background=True))
        await run.all_ended([1])
        assert 'background' in run.ended['g1'].error
    await server.stop()


# What a server must be like -----------------------------------------------------------------


@pytest.mark.parametrize(
    ('server', 'options', 'problem'),
    [
        ({'shift': 1}, {}, r'tokenizer in .*timely-planner.*expected the same; set model_path'),
        ({'obeys_grammar': False}, {}, r'structured outputs.*"backend":"guidance"'),
        ({'tells_ids': False}, {}, 'return_token_ids'),
        ({'model': 'other'}, {'model': 'mine'}, r"serves \['other'\]: expected 'mine'"),
        ({'api_key': 'right'}, {}, 'answered 401: expected it to accept the API key'),
    ],
)
async def test_a_server_that_serves_something_else_is_refused(
    server: dict[str, Any], options: dict[str, Any], problem: str
) -> None:
    wrong = await CompletionServer(**server).start()
    with pytest.raises(ModelLoadError, match=problem) as raised:
        async with Run([wrong.url], options):
            pass
    assert wrong.url in str(raised.value)
    await wrong.stop()


async def test_without_a_server_the_start_says_where_it_looked() -> None:
    server = await CompletionServer().start()
    await server.stop()
    with pytest.raises(ModelLoadError, match=r'no server after 0\.2 s') as raised:
        async with Run([server.url], {'start_limit_s': 0.2}):
            pass
    assert server.url in str(raised.value)


async def test_the_key_comes_from_a_file_or_the_environment_and_is_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = await CompletionServer(api_key='s3cret').start()
    file = tmp_path / 'key'
    file.write_text('s3cret\n')
    async with Run([server.url], {'api_key_file': str(file)}) as run:
        run.engine.submit(request(0))
        await run.all_ended([0])
        assert run.ended['g0'].reason != 'error'
    monkeypatch.setenv(API_KEY_VARIABLE, 's3cret')
    async with Run([server.url]):
        pass
    monkeypatch.setenv(API_KEY_VARIABLE, 'wr0ng')
    with pytest.raises(ModelLoadError) as raised:
        async with Run([server.url]):
            pass
    told = caplog.text + str(raised.value) + repr(ServerOptions((server.url,)))
    assert 's3cret' not in told
    assert 'wr0ng' not in told
    await server.stop()


async def test_certificates_are_checked(tmp_path: Path) -> None:
    if shutil.which('openssl') is None:
        pytest.skip('no openssl to make a certificate with')
    key, certificate = tmp_path / 'key.pem', tmp_path / 'cert.pem'
    subprocess.run(
        ['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2',
         '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost',
         '-keyout', key, '-out', certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await CompletionServer(tls=context).start()
    async with Run([server.url], {'ca_file': str(certificate)}) as run:
        run.engine.submit(request(0))
        await run.all_ended([0])
        assert run.ended['g0'].reason != 'error'
    with pytest.raises(ModelLoadError, match=r'(?i)certificate'):
        async with Run([server.url], {'start_limit_s': 0.2}):
            pass
    await server.stop()


@pytest.mark.parametrize(
    ('options', 'problem'),
    [
        ({'server_urls': ()}, r'server_urls \[\]'),
        ({'server_urls': ('gpu-1:8000',)}, r"'gpu-1:8000': expected http"),
        ({'server_urls': ('ftp://gpu-1',)}, 'ftp'),
        ({'server_urls': ('http://gpu-1:99999',)}, '99999'),
        ({'server_urls': ('http://gpu-1', 'http://gpu-1/v1')}, 'only once'),
        ({'server_urls': ('http://gpu-1?key=1',)}, 'key=1'),
        ({'silence_s': 0.0}, r'silence_s 0\.0: expected 0\.1 to 3600 s'),
        ({'mode': 'all'}, 'all'),
        ({'policy': 'best'}, 'best'),
        ({'max_running': 0}, 'max_running 0'),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        OpenAIEngine(**{'server_urls': ('http://gpu-1',), **options})


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigurationError, match='api_key_file') as raised:
        ServerOptions(('https://me:s3cret@gpu-1',))
    assert 's3cret' not in str(raised.value)


@pytest.mark.parametrize('content', ['', 'two words', 'ö'])
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / 'key'
    file.write_text(content)
    with pytest.raises(ConfigurationError, match='key'):
        ServerOptions(('http://a',), api_key_file=str(file)).read_api_key()
    with pytest.raises(ConfigurationError, match='absent'):
        ServerOptions(('http://a',), api_key_file=str(tmp_path / 'absent')).read_api_key()
    with pytest.raises(ConfigurationError, match='ca_file'):
        ServerOptions(('https://a',), ca_file=str(file)).ssl_context()
