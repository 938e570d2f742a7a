"""Serves the page, tells it what happens, and hands on what its user asks for.

One program serves files and a WebSocket on one port. What happens is gathered and sent to every
page a few times in a second; a page that cannot follow is dropped and comes back for a fresh start.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from contextlib import suppress
from http import HTTPStatus
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.window.access import Access
from timely_llm_ros.window.fleet_log import FleetLog, to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from websockets.asyncio.server import Server

    from timely_llm_ros.window.access import WindowOptions
    from timely_llm_ros.window.fleet_events import Event

    Answer = Callable[[Event], None]
    Command = Callable[[dict[str, Any], Answer], None]

_logger = logging.getLogger(__name__)

TICK_S = 0.05
"""How often what happened is sent (s)."""

QUIET_TICKS = 20
"""After so many ticks without an event the time alone is sent, and pages see that all is well."""

MOST_PAGES = 32
MOST_WAITING = 400
"""Messages that may wait for a page; one that has more is dropped."""

TOKEN_LIMIT_S = 5.0
"""How long a page may take to show its token (s)."""

MOST_REQUEST_BYTES = 1 << 16

WRONG_TOKEN, TOO_MANY = 4401, 4429
"""Codes by which a page is closed, in the range that is free for that."""

_TYPES = {'html': 'text/html', 'css': 'text/css', 'js': 'text/javascript'}

_HEADERS = {
    'Cache-Control': 'no-cache',
    'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'no-referrer',
    'Content-Security-Policy': "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'",
}
"""Has the browser refuse every script but the page's own, and its own use of HTML from texts."""


class Recording(NamedTuple):
    """A run that can be played: its events with their times, and what of it is missing."""

    label: str
    events: Sequence[Event]
    damage: str = ''


class _Page:
    """A page that is open, and what waits to be sent to it."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection
        self._waiting: deque[str] = deque()
        self._more = asyncio.Event()
        self.sending = asyncio.create_task(self._send(), name='window: to a page')

    def tell(self, text: str) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self.connection.transport.abort()
            return
        self._waiting.append(text)
        self._more.set()

    async def _send(self) -> None:
        with suppress(ConnectionClosed):
            while True:
                await self._more.wait()
                self._more.clear()
                while self._waiting:
                    await self.connection.send(self._waiting.popleft())


class WindowServer:
    """The window of one fleet, or of recordings. Everything is on the loop's thread.

    Args:
        options: Where it is and who may use it.
        now_s: The fleet's clock (s), by which events are timed.
        command: Takes what a page asks for and the function that answers it; None where nothing
            can be asked for.
        recordings: What can be played.
    """

    def __init__(
        self,
        options: WindowOptions,
        *,
        now_s: Callable[[], float],
        command: Command | None = None,
        recordings: Sequence[Recording] = (),
    ) -> None:
        self._options, self._now_s = options, now_s
        self._command = command if options.commands else None
        self._recordings = recordings
        self._access = Access(options)
        self._files = _files()
        self._log = FleetLog()
        self._events: list[Event] = []
        self._pages: set[_Page] = set()
        self._server: Server | None = None
        self._ticking: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """What to open in a browser; known once it serves."""
        port = self._options.port
        if self._server is not None:
            port = next(iter(self._server.sockets)).getsockname()[1]
        return self._access.address(self._options.host, port)

    async def start(self) -> None:
        """Begin to serve.

        Raises:
            ConfigurationError: The address cannot be served on.
        """
        try:
            self._server = await serve(
                self._serve,
                self._options.host,
                self._options.port,
                process_request=self._answer,
                # What is sent is short, and packing it would cost more than it saves.
                compression=None,
                max_size=MOST_REQUEST_BYTES,
                server_header=None,
                logger=_quiet(),
            )
        except OSError as err:
            where = f'{self._options.host}:{self._options.port}'
            raise ConfigurationError(
                f'window on {where}: {err.strerror}: expected an address of this machine and a '
                'free port (0 for any)'
            ) from err
        self._ticking = asyncio.create_task(self._tick(), name='window: ticks')

    async def close(self) -> None:
        """End every page's connection and serve no more."""
        if self._ticking is not None:
            self._ticking.cancel()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def tell(self, event: Event, t_s: float | None = None) -> None:
        """Tell every page of an event, and those that come later if it matters to them."""
        timed = {**event, 't': round(self._now_s() if t_s is None else t_s, 4)}
        self._log.take(timed)
        self._events.append(timed)

    # Sockets

    async def _tick(self) -> None:
        quiet = 0
        while True:
            await asyncio.sleep(TICK_S)
            quiet += 1
            if not self._events and quiet < QUIET_TICKS:
                continue
            events, self._events, quiet = self._events, [], 0
            text = to_text({'now': round(self._now_s(), 4), 'events': events})
            for page in self._pages:
                page.tell(text)

    async def _serve(self, connection: ServerConnection) -> None:
        if len(self._pages) >= MOST_PAGES:
            await connection.close(TOO_MANY, f'{MOST_PAGES} pages are open')
            return
        with suppress(ConnectionClosed, TimeoutError):
            async with asyncio.timeout(TOKEN_LIMIT_S):
                first = _request(await connection.recv())
            if not self._access.admits(first.get('token')):
                await connection.close(WRONG_TOKEN, 'the token is not that of this window')
                return
            page = _Page(connection)
            page.tell(to_text(self._welcome()))
            self._pages.add(page)
            try:
                async for message in connection:
                    self._take(page, _request(message))
            finally:
                self._pages.discard(page)
                page.sending.cancel()

    def _welcome(self) -> dict[str, Any]:
        # What waits for the next tick is in the log too, and must not come twice.
        waiting = {id(event) for event in self._events}
        known = [event for event in self._log.events() if id(event) not in waiting]
        return {
            'hello': {
                'commands': self._command is not None,
                'recordings': [one.label for one in self._recordings],
            },
            'now': round(self._now_s(), 4),
            'events': known,
        }

    def _take(self, page: _Page, request: dict[str, Any]) -> None:
        key = str(request.get('key', ''))[:64]

        def answer(event: Event) -> None:
            page.tell(to_text({'answer': event, 'key': key}))

        number = request.get('recording')
        if isinstance(number, int) and 0 <= number < len(self._recordings):
            asked = self._recordings[number]
            answer({'events': list(asked.events), 'damage': asked.damage})
        elif self._command is None:
            answer({'error': 'this window only shows'})
        else:
            self._command(request, answer)

    # Files

    def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        host = request.headers.get('Host', '')
        if not self._access.knows_host(host):
            return connection.respond(HTTPStatus.FORBIDDEN, 'expected a name of this machine\n')
        if request.path == '/socket':
            if self._access.same_origin(host, request.headers.get('Origin')):
                return None
            return connection.respond(HTTPStatus.FORBIDDEN, 'expected a page of this window\n')
        found = self._files.get(request.path.partition('?')[0])
        if found is None:
            return connection.respond(HTTPStatus.NOT_FOUND, 'nothing is here\n')
        kind, content = found
        headers = Headers(_HEADERS)
        headers['Content-Type'] = f'{kind}; charset=utf-8'
        headers['Content-Length'] = str(len(content))
        headers['Connection'] = 'close'
        return Response(HTTPStatus.OK, 'OK', headers, content)


def _files() -> dict[str, tuple[str, bytes]]:
    """Return type and content of the page's files by path. They are few and small."""
    files = {}
    for folder in ('timely_llm_ros.window.look', 'timely_llm_ros.window.serving.page'):
        for file in resources.files(folder).iterdir():
            kind = _TYPES.get(file.name.rpartition('.')[2])
            if kind is not None:
                files[f'/{file.name}'] = (kind, file.read_bytes())
    files['/'] = files.pop('/index.html')
    return files


def _request(message: str | bytes) -> dict[str, Any]:
    with suppress(ValueError):
        request = json.loads(message)
        if isinstance(request, dict):
            return request
    return {}


def _quiet() -> logging.Logger:
    """Return a logger that tells what fails, and not who comes and goes."""
    logger = logging.getLogger(f'{__name__}.connections')
    logger.setLevel(logging.CRITICAL)
    return logger
