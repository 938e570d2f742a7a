"""A server on loopback that has OpenAI's chat completions and nothing else, with known answers."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

from support.engines.http_server import HttpServer, reply, write_event

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

Messages = list[dict[str, str]]


class ChatServer(HttpServer):
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
        super().__init__()
        self.write, self.pieces, self.models = write, re.compile(pieces, re.DOTALL), models
        self.refuses, self.cut, self.api_key = refuses, cut, api_key
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []

    async def answer(
        self, writer: asyncio.StreamWriter, path: str, headers: dict[str, str], data: bytes
    ) -> bool:
        self.paths.append(path)
        if self.api_key and headers.get('authorization') != f'Bearer {self.api_key}':
            return await reply(writer, 401, {'error': {'message': 'no key'}})
        if path == '/v1/models' and self.models is not None:
            return await reply(writer, 200, {'data': [{'id': name} for name in self.models]})
        if path != '/v1/chat/completions':
            return await reply(writer, 404, {'error': {'message': f'no {path}'}})
        body = json.loads(data)
        refused = next((name for name in self.refuses if name in body), '')
        if refused:
            hint = ', use max_completion_tokens' if refused == 'max_tokens' else ''
            message = f'unsupported parameter {refused!r}{hint}'
            return await reply(writer, 400, {'error': {'message': message}})
        self.requests.append(body)
        return await self.stream(writer, self._write(writer, body))

    async def _write(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> bool:
        most = body.get('max_completion_tokens', body.get('max_tokens'))
        pieces = self.pieces.findall(self.write(body['messages']))
        _event(writer, {'role': 'assistant', 'content': None})
        for number, piece in enumerate(pieces[:most]):
            # The first request is the probe.
            if len(self.requests) == 2 and number == self.cut:
                return False
            _event(writer, {'content': piece})
            await writer.drain()
            await asyncio.sleep(0)
        _event(writer, {}, 'length' if most is not None and len(pieces) > most else 'stop')
        write_event(writer, {'choices': [], 'usage': {'total_tokens': 7}})
        return True


def _event(writer: asyncio.StreamWriter, delta: dict[str, Any], finish: str | None = None) -> None:
    choice = {'index': 0, 'delta': delta, 'finish_reason': finish}
    write_event(writer, {'object': 'chat.completion.chunk', 'choices': [choice]})
