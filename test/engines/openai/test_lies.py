"""A server that lies: every generation ends with a clear error, in time and in little memory."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from support.engines import lies
from support.engines.completion_server import CompletionServer
from support.engines.lies import answer, drip, event, for_ever, once, redirect
from support.engines.server_runs import Run, request

from timely_llm_ros.errors import ModelLoadError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from support.engines.lies import Lie

pytestmark = pytest.mark.usefixtures('quick_retries')

OPTIONS = {'silence_s': 0.3, 'health_period_s': 3600.0, 'start_limit_s': 2.0}
MOST_BYTES = 30_000_000
"""What Python may hold at any time beside what it held before."""

DEEP = b'[' * 100_000
FINISH = event(token_ids=[5], finish_reason='stop')
HEAD = lies.STREAM + b'\r\n'


@pytest.fixture
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_BYTES


STREAMS: dict[str, tuple[Lie, str]] = {
    'ids too large': (once(HEAD + event(token_ids=[10**30])), 'token ids below'),
    'ids not whole': (once(HEAD + event(token_ids=[1.5])), 'token ids below'),
    'ids that are true': (once(HEAD + event(token_ids=[True])), 'token ids below'),
    'ids that are no number': (
        once(HEAD + b'data: {"choices": [{"token_ids": [NaN, Infinity]}]}\n\n'),
        'token ids below',
    ),
    'ids that are text': (once(HEAD + event(token_ids={'1': 2, 'x': 'y'})), 'token ids below'),
    'an endless number': (once(HEAD + b'data: ' + b'9' * 1_000_000 + b'\n\n'), 'token ids below'),
    'deep JSON': (once(HEAD + b'data: ' + DEEP + b'\n\n'), 'token ids below'),
    'no UTF-8': (once(HEAD + b'data: \xff\xfe\n\n'), 'token ids below'),
    'another reason to finish': (once(HEAD + event(finish_reason='because')), 'finish_reason'),
    'no tokens for ever': (for_ever(event(token_ids=[])), 'no token for 0.3 s'),
    'comments for ever': (for_ever(b': still there\n\n'), 'no token for 0.3 s'),
    'a line for ever': (for_ever(lies.PIECE), 'line of more than'),
    'a drip': (drip(event(token_ids=[5]) * 50), 'no token for 0.3 s'),
    'drip of a head': (drip(b'X-A: b\r\n' * 500, lies.STREAM), 'no answer for 0.3 s'),
    'a head for ever': (for_ever(b'X: ' + lies.PIECE, lies.STREAM), 'localhost'),
    'wait for ever': (
        for_ever(b'HTTP/1.1 100 Continue\r\n\r\n', b'', 0.01),
        'no answer for 0.3 s',
    ),
    'a page': (
        once(answer(b'<html>hello</html>', 'text/html')),
        "'text/html': expected text/event",
    ),
    'an error as success': (once(answer(b'{"error": {"message": "out of oil"}}')), 'out of oil'),
    'a bomb': (
        once(answer(lies.BOMB, 'text/event-stream', 'Content-Encoding: gzip\r\n')),
        "content encoding 'gzip': expected none",
    ),
    'a bomb as error': (
        once(answer(lies.BOMB, more='Content-Encoding: gzip\r\n', status=500)),
        "content encoding 'gzip': expected none",
    ),
    'an error for ever': (
        for_ever(lies.PIECE, b'HTTP/1.1 500 X\r\nConnection: close\r\n\r\n'),
        'answered 500',
    ),
    'drip of an error': (
        drip(b'x' * 500, b'HTTP/1.1 500 X\r\nConnection: close\r\n\r\n'),
        'no answer for 0.3 s',
    ),
    'nonsense': (once(b'220 mail.example.org ESMTP\r\n'), 'localhost'),
    'nothing': (once(b''), 'localhost'),
    'a file': (redirect('file:///etc/passwd'), 'answered 307'),
}


@pytest.mark.usefixtures('little_memory')
@pytest.mark.parametrize(('lie', 'said'), STREAMS.values(), ids=STREAMS)
async def test_a_generation_ends_whatever_its_server_says(lie: Lie, said: str) -> None:
    server = await CompletionServer().start()
    async with Run([server.url], OPTIONS) as run:
        server.lies['stream'] = lie
        run.engine.submit(request(0))
        await run.all_ended([0])
        assert run.ended['g0'].reason == 'error'
        assert said in run.ended['g0'].error
        assert len(run.ended['g0'].error) < 1000
        assert run.ended['g0'].error.isprintable()
        # And the engine serves on.
        del server.lies['stream']
        run.engine.submit(request(1))
        await run.all_ended([1])
        assert run.ended['g1'].reason != 'error'
    await server.stop()


AFTERWARDS: dict[str, Lie] = {
    'comments': for_ever(b': more\n', HEAD + FINISH),
    'events': for_ever(event(token_ids=[7]), HEAD + FINISH),
    'ends': for_ever(b'data: [DONE]\n\n', HEAD + FINISH),
    'a line': for_ever(lies.PIECE, HEAD + FINISH),
    'silence': drip(b': ' + b'-' * 1000, HEAD + FINISH),
}


@pytest.mark.usefixtures('little_memory')
@pytest.mark.parametrize('lie', AFTERWARDS.values(), ids=AFTERWARDS)
async def test_what_comes_after_the_end_is_not_listened_to(lie: Lie) -> None:
    """Each request brings its token; the connection is closed soon after."""
    server = await CompletionServer().start()
    async with Run([server.url], OPTIONS) as run:
        server.lies['stream'] = lie
        run.engine.submit(request(0, max_tokens=3, constrained=False))
        await run.all_ended([0])
        await run.until(lambda: not server.lying)
    await server.stop()


STARTS: dict[str, tuple[str, Lie, str]] = {
    'a bomb': (
        '/v1/models',
        once(answer(lies.BOMB, more='Content-Encoding: gzip\r\n')),
        "content encoding 'gzip': expected none",
    ),
    'models for ever': (
        '/v1/models',
        for_ever(lies.PIECE, b'HTTP/1.1 200 X\r\nConnection: close\r\n\r\n'),
        'more than',
    ),
    'drip of models': (
        '/v1/models',
        drip(b'{"data": [' + b' ' * 1000, b'HTTP/1.1 200 X\r\nConnection: close\r\n\r\n'),
        'no answer for 0.3 s',
    ),
    'deep JSON': ('/v1/models', once(answer(DEEP)), 'expected JSON'),
    'names that are none': (
        '/v1/models',
        once(answer(b'{"data": [{"id": 1}, {"id": "a"}, {"id": null}]}')),
        'expected a list of models',
    ),
    'a page': ('/v1/models', once(answer(b'<html>', 'text/html')), 'expected JSON'),
    'a file': ('/health', redirect('file:///etc/passwd', 302), '/health answered 302'),
    'health for ever': (
        '/health',
        for_ever(lies.PIECE, b'HTTP/1.1 200 X\r\nConnection: close\r\n\r\n'),
        'more than',
    ),
    'ids that are none': (
        '/v1/completions',
        once(answer(b'{"choices": [{"token_ids": [[1], null], "prompt_token_ids": "1 2"}]}')),
        'expected the same',
    ),
}


@pytest.mark.usefixtures('little_memory')
@pytest.mark.parametrize(('path', 'lie', 'said'), STARTS.values(), ids=STARTS)
async def test_the_start_ends_whatever_the_server_says(path: str, lie: Lie, said: str) -> None:
    server = await CompletionServer().start()
    server.lies[path] = lie
    with pytest.raises(ModelLoadError) as raised:
        async with Run([server.url], OPTIONS):
            pass
    assert said in str(raised.value)
    assert str(raised.value).isprintable()
    await server.stop()


async def test_a_redirect_does_not_get_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('TIMELY_LLM_API_KEY', 's3cret')
    other = await CompletionServer().start()
    server = await CompletionServer(api_key='s3cret').start()
    async with Run([server.url], OPTIONS) as run:
        for status in (301, 302, 303, 307, 308):
            server.lies['stream'] = redirect(f'{other.url}/v1/completions', status)
            run.engine.submit(request(status))
            await run.all_ended([status])
            assert f'answered {status}' in run.ended[f'g{status}'].error
    assert other.connections == 0
    await other.stop()
    await server.stop()


async def test_an_answer_that_repeats_the_key_does_not_get_it_into_errors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv('TIMELY_LLM_API_KEY', 's3cret')
    server = await CompletionServer(api_key='s3cret').start()
    async with Run([server.url], OPTIONS) as run:
        told = json.dumps({'error': {'message': '\x1b[31mBearer s3cret\n is wrong'}}).encode()
        server.lies['stream'] = once(answer(told, status=400))
        run.engine.submit(request(0))
        await run.all_ended([0])
    assert 'is wrong' in run.ended['g0'].error
    assert run.ended['g0'].error.isprintable()
    assert 's3cret' not in run.ended['g0'].error + caplog.text
    await server.stop()


async def test_cookies_do_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    server = await CompletionServer().start()
    async with Run([server.url], OPTIONS | {'health_period_s': 0.05}) as run:
        sent = {'number': 0}

        async def lie(writer: asyncio.StreamWriter) -> None:
            sent['number'] += 1
            more = f'Set-Cookie: c{sent["number"]}={"x" * 3000}\r\n'
            await once(answer(b'{}', more=more))(writer)

        server.lies['/health'] = lie
        await run.until(lambda: sent['number'] > 3)
    assert not any('cookie' in headers for headers in server.headers)
    await server.stop()


async def test_text_and_usage_that_lie_change_nothing(undisturbed_plans: dict[int, Any]) -> None:
    server = await CompletionServer(
        says={'text': 'land;' * 99, 'usage': {'completion_tokens': -1e308, 'total_tokens': None}}
    ).start()
    async with Run([server.url], OPTIONS) as run:
        run.engine.submit(request(0))
        await run.all_ended([0])
        assert run.plan(0) == undisturbed_plans[0]
    await server.stop()
