"""One HTTP exchange with a server that may mean no good: bounded in time and in memory.

A server decides how much it says and how slowly, and what it packs into how little. Here nothing
is unpacked, a line and an answer have a most length, and an answer must be whole in time.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from timely_llm_ros.errors import ServerLostError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    import httpx2

MOST_BYTES = 1_000_000
"""Of an answer, or of one line of a stream."""

HEADERS = {'Accept-Encoding': 'identity'}
"""A server that packs an answer all the same is not read: 1 MB may become 1 GB."""


SESSION_HEADER = 'X-Session-ID'
"""vLLM takes it as a request's ``session_id``, and routers keep what has one value together."""


def retry_after_s(value: str, now: datetime | None = None) -> float | None:
    """Return what a ``Retry-After`` header says (s), as seconds or as a date; None if nothing."""
    text = value.strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    # A date without a zone is in UTC, as RFC 9110 has all of them.
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - (now or datetime.now(UTC))).total_seconds())


@asynccontextmanager
async def exchange(
    client: httpx2.AsyncClient,
    path: str,
    body: dict[str, Any] | None,
    *,
    limit_s: float,
    session: str = '',
) -> AsyncIterator[httpx2.Response]:
    """Ask something; yield the answer, whose body is not read yet.

    Args:
        client: The connection.
        path: What to ask: by POST where there is a body, else by GET.
        body: JSON.
        limit_s: How long the answer's head may take (s), connecting included.
        session: What requests that should come to the same machine have in common; '' for nothing.

    Raises:
        ServerLostError: The answer is packed.
        httpx2.HTTPError: It does not come.
        TimeoutError: It does not come in time.
    """
    headers = {SESSION_HEADER: quote(session, safe='')} if session else {}
    method = 'GET' if body is None else 'POST'
    request = client.build_request(method, path, json=body, headers=headers)
    async with asyncio.timeout(limit_s):
        response = await client.send(request, stream=True)
    try:
        packed = response.headers.get('content-encoding', 'identity')
        if packed != 'identity':
            raise ServerLostError(f'content encoding {packed[:40]!r}: expected none')
        yield response
    finally:
        await response.aclose()


async def whole(response: httpx2.Response, *, most: int = MOST_BYTES, limit_s: float) -> bytes:
    """Return an answer's body.

    Raises:
        ServerLostError: It is longer than ``most`` bytes.
        httpx2.HTTPError: It does not come.
        TimeoutError: It does not come in time.
    """
    found = await beginning(response, most=most + 1, limit_s=limit_s)
    if len(found) > most:
        raise ServerLostError(f'an answer of more than {most} bytes: expected less')
    return found


async def beginning(response: httpx2.Response, *, most: int, limit_s: float) -> bytes:
    """Return the first bytes of an answer's body, whatever comes after them.

    Raises:
        httpx2.HTTPError: It does not come.
        TimeoutError: It does not come in time.
    """
    found = bytearray()
    async with asyncio.timeout(limit_s):
        async for piece in response.aiter_raw():
            found += piece
            if len(found) >= most:
                break
    return bytes(found[:most])


async def events(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """Yield the data of a stream's events, where there are any.

    Raises:
        ServerLostError: A line is too long.
        httpx2.HTTPError: The stream is cut.
    """
    rest = bytearray()
    async for piece in response.aiter_raw():
        rest += piece
        if b'\n' in piece:
            *found, last = rest.split(b'\n')
            rest = bytearray(last)
            for line in found:
                if line.startswith(b'data:') and (data := bytes(line[5:]).strip()):
                    yield data
        if len(rest) > MOST_BYTES:
            raise ServerLostError(f'a line of more than {MOST_BYTES} bytes: expected less')
