"""Speaks with a server that has chats and nothing more: cloud services, Ollama, LM Studio."""

from __future__ import annotations

import json
import logging
import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.openai.client import ServerClient
from timely_llm_ros.engines.openai.completions import Chunk, ServedModel
from timely_llm_ros.errors import ModelLoadError, RequestRefusedError, ServerLostError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from timely_llm_ros.engines.texts import TokenCodec

_logger = logging.getLogger(__name__)

_PATH = '/v1/chat/completions'
_PROBE = {'messages': [{'role': 'user', 'content': 'Say yes.'}], 'max_tokens': 8, 'temperature': 0}
_PIECE = re.compile(r'[^;]*;|[^;]+')
"""What counts as one token: nothing behind the end of a statement, where the robot may have to say
something first."""


class ChatClient(ServerClient):
    """A connection pool to one server that has OpenAI's chat completions.

    It gives requests the names that the server takes: some know no ``max_tokens``, or no
    ``temperature``, which is found out at the start.
    """

    async def check_health(self) -> None:
        """Ask nothing: such servers have no ``/health``, and a request that fails says so."""

    async def check(self, texts: TokenCodec) -> ServedModel:
        """Check that the server serves a model and streams chats of it.

        Raises:
            ServerLostError: It does not answer, or not yet.
            ModelLoadError: It has no such model, refuses a plain request, or does not accept the
                key.
        """
        self._codec = texts
        served = await self._find_chat_model()
        self._model = served.name
        self._most, self._leaves_out = 'max_tokens', {'priority'}
        while True:
            try:
                async with aclosing(self.tokens(_PROBE)) as chunks:
                    async for _ in chunks:
                        pass
            except RequestRefusedError as err:
                if not self._learn(str(err)):
                    raise ModelLoadError(str(err)) from err
            else:
                return served

    async def tokens(
        self, body: dict[str, Any], *, session: str = ''
    ) -> AsyncGenerator[Chunk, None]:
        """Yield an answer's pieces as they come, see :class:`Completions`."""
        request = {'model': self._model, 'stream': True}
        for name, value in body.items():
            if name not in self._leaves_out:
                request[self._most if name == 'max_tokens' else name] = value
        async with aclosing(self._stream(_PATH, request, self._piece, session)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _find_chat_model(self) -> ServedModel:
        try:
            return await self._find_model()
        except ModelLoadError:
            # Not every service lists its models, and some list them by other names.
            if not self._options.model:
                raise
            return ServedModel(self._options.model, 1 << 30)

    def _learn(self, refusal: str) -> bool:
        """Learn from a refusal what the server does not take; return whether that was new."""
        if 'max_completion_tokens' in refusal and self._most == 'max_tokens':
            self._most = 'max_completion_tokens'
            return True
        for name in ('temperature', 'seed', 'top_p'):
            if name in refusal and name not in self._leaves_out:
                self._leaves_out.add(name)
                _logger.warning('%s takes no %s: it draws tokens as it likes', self.url, name)
                return True
        return False

    def _piece(self, data: bytes) -> Chunk:
        """Read one event.

        Raises:
            ServerLostError: It is an error, or not what was asked for.
            RequestRefusedError: The server ended the answer for a reason of its own.
        """
        text, finish = '', ''
        try:
            event = json.loads(data)
            if 'error' in event:
                raise ServerLostError(str(event['error'])[:300])
            for choice in event.get('choices', [])[:1]:
                delta = choice.get('delta') or {}
                text = delta.get('content') or ''
                finish = choice.get('finish_reason') or ''
            if not isinstance(text, str):
                raise TypeError(text)  # noqa: TRY301
        except (ValueError, TypeError, AttributeError, RecursionError, KeyError) as err:
            said = data[:80].decode('utf-8', 'replace')
            raise ServerLostError(f'{said!r}: expected a piece of an answer') from err
        if finish not in ('', 'stop', 'length'):
            raise RequestRefusedError(
                f'the server ended an answer with {str(finish)[:40]!r}: expected stop or length'
            )
        # A surrogate alone is no text.
        text = text.encode('utf-8', 'replace').decode()
        ids = [token for piece in _PIECE.findall(text) for token in self._codec.encode(piece)]
        if finish == 'stop':
            ids.append(min(self._codec.end_ids))
        return Chunk(tuple(ids), finish)
