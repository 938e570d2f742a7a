"""A server on loopback that has OpenAI's chat completions and nothing else, with known answers."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

from support.engines.completion_server import _reply, _write_chunk, _write_event

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

Messages = list[dict[str, str]]


class ChatServer:
    """One server.

    Args:
        write: What the model writes where these messages end.
        pieces: How it is cut into pieces, as a regular expression.
        models: The models that it lists; None where it lists none.
        refuses: Names in requests that it refuses.
        cut: After how many pieces of its first answer the connection breaks.
        api_key: The key that it wants.
    """

    def __init__(
        self,
        write: Callable[[Messages], str],
        *,
        pieces: str = r'\w+|\s+|.',
        models: Collection[str] | None = ('talker',),
        refuses: Collection[str] = (),
        cut: int | None = None,
        api_key: str = '',
    ) -> None:
        self.write, self.pieces, self.models = write, re.compile(pieces, re.DOTALL), models
        self.refuses, self.cut, self.api_key = refuses, cut, api_key
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.running = self.most_running = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f'http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}'

    async def __aenter__(self) -> ChatServer:
        self._server = await asyncio.start_server(self._serve, '127.0.0.1', 0, limit=1 << 24)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b'\r\n\r\n')).decode().split('\r\n')
        path = head[0].split(' ')[1]
        headers = dict(line.lower().split(': ', 1) for line in head[1:] if ': ' in line)
        data = await reader.readexactly(int(headers.get('content-length', 0)))
        self.paths.append(path)
        if self.api_key and headers.get('authorization') != f'bearer {self.api_key}':
            return await _reply(writer, 401, {'error': {'message': 'no key'}})
        if path == '/v1/models' and self.models is not None:
            return await _reply(writer, 200, {'data': [{'id': name} for name in self.models]})
        if path != '/v1/chat/completions':
            return await _reply(writer, 404, {'error': {'message': f'no {path}'}})
        body = json.loads(data)
        refused = next((name for name in self.refuses if name in body), '')
        if refused:
            hint = ', use max_completion_tokens' if refused == 'max_tokens' else ''
            message = f'unsupported parameter {refused!r}{hint}'
            return await _reply(writer, 400, {'error': {'message': message}})
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            return await self._stream(writer, body)
        finally:
            self.running -= 1

    async def _stream(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> bool:
        self.requests.append(body)
        most = body.get('max_completion_tokens', body.get('max_tokens'))
        pieces = self.pieces.findall(self.write(body['messages']))
        writer.write(
            b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n'
            b'Transfer-Encoding: chunked\r\n\r\n'
        )
        _event(writer, {'role': 'assistant', 'content': None})
        for number, piece in enumerate(pieces[:most]):
            # The first request is the probe.
            if len(self.requests) == 2 and number == self.cut:
                return False
            _event(writer, {'content': piece})
            await writer.drain()
            await asyncio.sleep(0)
        _event(writer, {}, 'length' if most is not None and len(pieces) > most else 'stop')
        _write_event(writer, {'choices': [], 'usage': {'total_tokens': 7}})
        _write_chunk(writer, b'data: [DONE]\n\n')
        writer.write(b'0\r\n\r\n')
        await writer.drain()
        return True


def _event(writer: asyncio.StreamWriter, delta: dict[str, Any], finish: str | None = None) -> None:
    choice = {'index': 0, 'delta': delta, 'finish_reason': finish}
    _write_event(writer, {'object': 'chat.completion.chunk', 'choices': [choice]})
