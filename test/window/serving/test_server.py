"""The server tells pages what happens, and takes what they ask for."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.window import WindowOptions
from timely_llm_ros.window.serving import Recording, WindowServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LIMIT_S = 30.0


@asynccontextmanager
async def serving(server: WindowServer) -> AsyncIterator[str]:
    await server.start()
    try:
        yield server.address.partition('#')[0].removeprefix('http://').rstrip('/')
    finally:
        await server.close()


def make(**options: Any) -> WindowServer:
    given = {name: options.pop(name) for name in ('command', 'recordings') if name in options}
    return WindowServer(WindowOptions(port=0, **options), now_s=lambda: 7.0, **given)


async def opened(place: str, token: str = '', **options: Any) -> ClientConnection:
    socket = await connect(f'ws://{place}/socket', **options)
    await socket.send(json.dumps({'token': token}))
    return socket


async def heard(socket: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(LIMIT_S):
        told: dict[str, Any] = json.loads(await socket.recv())
        return told


async def fetched(place: str, path: str, **headers: str) -> tuple[str, str, str]:
    host, _, port = place.partition(':')
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = {'Host': place, **headers}
    head = ''.join(f'{name}: {value}\r\n' for name, value in lines.items())
    writer.write(f'GET {path} HTTP/1.1\r\n{head}\r\n'.encode())
    async with asyncio.timeout(LIMIT_S):
        answer = (await reader.read()).decode()
    writer.close()
    first, _, rest = answer.partition('\r\n')
    head, _, body = rest.partition('\r\n\r\n')
    return first, head, body


async def test_a_page_is_told_what_was_and_then_what_happens_each_once() -> None:
    server = make()
    async with serving(server) as place:
        server.tell({'event': 'robot', 'robot': 'r', 'call': 'takeoff'}, 1.0)
        socket = await opened(place)
        first = await heard(socket)
        assert first['hello'] == {'commands': False, 'recordings': []}
        events = list(first['events'])
        server.tell({'event': 'robot', 'robot': 'r', 'call': 'land'}, 2.0)
        while len(events) < 2:
            events += (await heard(socket))['events']
        assert [event['call'] for event in events] == ['takeoff', 'land']
        late = await opened(place)
        assert [event['call'] for event in (await heard(late))['events']] == ['land']


async def test_what_a_page_asks_for_is_answered_to_that_page() -> None:
    def command(request: dict[str, Any], answer: Any) -> None:
        answer({'took': request.get('do')})

    async with serving(make(command=command)) as place:
        socket = await opened(place)
        assert (await heard(socket))['hello']['commands'] is True
        await socket.send('not json')
        await socket.send(json.dumps({'do': 'halt', 'key': 'k1'}))
        while 'answer' not in (told := await heard(socket)) or told['key'] != 'k1':
            pass
        assert told == {'answer': {'took': 'halt'}, 'key': 'k1'}


async def test_a_window_that_only_shows_does_nothing() -> None:
    done: list[Any] = []
    server = make(command=lambda *what: done.append(what), commands=False)
    async with serving(server) as place:
        socket = await opened(place)
        await heard(socket)
        await socket.send(json.dumps({'do': 'halt', 'robots': []}))
        assert (await heard(socket))['answer'] == {'error': 'this window only shows'}
    assert not done


async def test_recordings_come_whole_when_they_are_asked_for() -> None:
    events = [{'event': 'robot', 'robot': 'r', 't': 1.0}]
    async with serving(make(recordings=[Recording('first', events, 'cut off')])) as place:
        socket = await opened(place)
        assert (await heard(socket))['hello']['recordings'] == ['first']
        await socket.send(json.dumps({'recording': 0, 'key': 'k'}))
        assert (await heard(socket))['answer'] == {'events': events, 'damage': 'cut off'}
        await socket.send(json.dumps({'recording': 5}))
        assert 'error' in (await heard(socket))['answer']


async def test_without_the_token_nothing_is_told() -> None:
    async with serving(make(token='t' * 16)) as place:
        socket = await opened(place, 'wrong')
        with pytest.raises(ConnectionClosed) as closed:
            await heard(socket)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4401
        assert 'hello' in await heard(await opened(place, 't' * 16))


async def test_other_sites_are_turned_away() -> None:
    async with serving(make()) as place:
        with pytest.raises(InvalidStatus, match='403'):
            await opened(place, origin='http://evil.example')
        assert '403' in (await fetched(place, '/', Host='evil.example'))[0]
        assert 'hello' in await heard(await opened(place, origin=f'http://{place}'))


async def test_the_page_and_its_parts_are_served_and_nothing_else() -> None:
    async with serving(make()) as place:
        first, head, body = await fetched(place, '/')
        assert '200' in first
        assert "default-src 'none'; script-src 'self'" in head
        for part in ('look.css', 'window.css', 'gantt.js', 'main.js'):
            assert part in body
            assert '200' in (await fetched(place, f'/{part}'))[0]
        for path in ('/../server.py', '/__init__.py', '/%2e%2e/server.py', '/no'):
            assert '404' in (await fetched(place, path))[0]


async def test_a_port_that_is_taken_is_named() -> None:
    server = make()
    async with serving(server) as place:
        port = int(place.rpartition(':')[2])
        with pytest.raises(ConfigurationError, match=f'window on 127.0.0.1:{port}'):
            await WindowServer(WindowOptions(port=port), now_s=lambda: 0.0).start()
