"""What the servers of tests have in common: connections on loopback, and events in chunks."""

from __future__ import annotations

import asyncio
import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import ssl
    from collections.abc import Coroutine, Mapping


class HttpServer:
    """Serves HTTP on a port of loopback; a subclass says what is answered in ``answer``."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.port = 0
        self.connections = self.running = self.most_running = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f'{"https" if self.tls else "http"}://localhost:{self.port}'

    async def start(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, '127.0.0.1', self.port, ssl=self.tls, limit=1 << 24
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """Die: every connection is closed, and none is accepted any more."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def answer(
        self, writer: asyncio.StreamWriter, path: str, headers: dict[str, str], data: bytes
    ) -> bool:
        """Answer one request; return whether the connection stays open."""
        raise NotImplementedError

    async def stream(self, writer: asyncio.StreamWriter, events: Coroutine[Any, Any, bool]) -> bool:
        """Answer with what ``events`` writes, which says whether the connection stays open."""
        writer.write(
            b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n'
            b'Transfer-Encoding: chunked\r\n\r\n'
        )
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if not await events:
                return False
        finally:
            self.running -= 1
        write_chunk(writer, b'data: [DONE]\n\n')
        writer.write(b'0\r\n\r\n')
        await writer.drain()
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            # A connection may be accepted just before a death and come here after it.
            while self._server is not None and await self._answer_next(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _answer_next(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        head = (await reader.readuntil(b'\r\n\r\n')).decode().split('\r\n')
        _, path, _ = head[0].split(' ')
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(':') for line in head[1:] if line)
        }
        data = await reader.readexactly(int(headers.get('content-length', 0)))
        return await self.answer(writer, path, headers, data)


async def reply(
    writer: asyncio.StreamWriter,
    status: int,
    answer: dict[str, Any],
    headers: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """Answer a request with JSON; the connection stays open."""
    data = json.dumps(answer).encode()
    more = ''.join(f'{name}: {value}\r\n' for name, value in headers.items())
    writer.write(
        f'HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{more}'
        f'Content-Length: {len(data)}\r\n\r\n'.encode()
        + data
    )
    await writer.drain()
    return True


def write_event(writer: asyncio.StreamWriter, event: dict[str, Any]) -> None:
    write_chunk(writer, f'data: {json.dumps(event)}\n\n'.encode())


def write_chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f'{len(data):x}\r\n'.encode() + data + b'\r\n')
