"""What a server may answer that means no good. Each lie has the connection to itself."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Lie = Callable[[asyncio.StreamWriter], Awaitable[None]]

STREAM = b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n'
PIECE = b'x' * 65536


def event(**choice: Any) -> bytes:
    """Return an event of a stream, with the fields of its first choice."""
    return f'data: {json.dumps({"choices": [choice]})}\n\n'.encode()


def once(data: bytes) -> Lie:
    """Say that and close."""

    async def lie(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return lie


def for_ever(piece: bytes, begin: bytes = STREAM + b'\r\n', every_s: float = 0.0) -> Lie:
    """Begin, then say the same again and again."""

    async def lie(writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(every_s)

    return lie


def drip(data: bytes, begin: bytes = STREAM + b'\r\n') -> Lie:
    """Say it byte by byte, each soon enough for whoever only waits for the next byte."""

    async def lie(writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        for number in range(len(data)):
            writer.write(data[number : number + 1])
            await writer.drain()
            await asyncio.sleep(0.05)

    return lie


def answer(data: bytes, kind: str = 'application/json', more: str = '', status: int = 200) -> bytes:
    """Return a whole answer."""
    head = (
        f'HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{more}\r\n'
    )
    return head.encode() + data


def redirect(target: str, status: int = 307) -> Lie:
    """Send the client elsewhere."""
    return once(answer(b'', more=f'Location: {target}\r\n', status=status))


BOMB = gzip.compress(b'\0' * 300_000_000, 1)
"""1.4 MB that become 300 MB."""
