"""A completion server on loopback that speaks vLLM's protocol, with a chaotic model and faults.

Its next token is a hash of the whole context among the tokens that the request's grammar allows.
So a continuation is the same only if context and choices are.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import llguidance
import numpy as np
from support.engines.http_server import HttpServer, reply, write_chunk, write_event

from timely_llm_ros.engines.texts.server_texts import ServerTexts

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from support.engines.lies import Lie

TEXTS = ServerTexts('timely-planner')
END = min(TEXTS.end_ids)
_DECODER = TEXTS._decoder


@dataclass
class Fault:
    """What goes wrong in one request: after so many tokens, how.

    ``cut`` closes the connection, ``half`` does so in the middle of a line, ``hang`` sends nothing
    more, ``error`` sends an error event, ``garbage`` sends what is no event, ``429``, ``500`` and
    ``503`` answer with that status and, if it is given, with ``retry_after``, ``slow`` takes its
    time, and ``late`` does so before the head of the answer.
    """

    kind: str
    after: int = 0
    retry_after: str = ''


@dataclass
class Request:
    """A completion request as it came."""

    body: dict[str, Any]
    session: str = ''
    sent: list[int] = field(default_factory=list)


class CompletionServer(HttpServer):
    """One server; ``fault`` is asked what goes wrong with each streamed request.

    ``lies`` answer in its place, by path or for each ``stream``; ``says`` goes into every event.
    """

    def __init__(
        self,
        *,
        fault: Callable[[int], Fault | None] = lambda number: None,
        api_key: str = '',
        tls: ssl.SSLContext | None = None,
        model: str = 'chaos',
        base: str = '',
        context_limit: int = 4096,
        shift: int = 0,
        obeys_grammar: bool = True,
        tells_ids: bool = True,
        step_s: float = 0.0,
        says: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(tls)
        self.fault, self.api_key, self.model, self.base = fault, api_key, model, base
        self.context_limit, self.shift = context_limit, shift
        self.obeys_grammar, self.tells_ids, self.step_s = obeys_grammar, tells_ids, step_s
        self.says = says or {}
        self.lies: dict[str, Lie] = {}
        self.lying = 0
        self.headers: list[dict[str, str]] = []
        self.requests: list[Request] = []
        self.health, self.asked, self.ill_answers = 200, 0, 0

    async def answer(
        self, writer: asyncio.StreamWriter, path: str, headers: dict[str, str], data: bytes
    ) -> bool:
        allowed = not self.api_key or headers.get('authorization') == f'Bearer {self.api_key}'
        self.headers.append(headers)
        streamed = b'"stream":true' in data.replace(b' ', b'')
        lie = self.lies.get('stream' if streamed else path)
        if lie is not None:
            self.lying += 1
            try:
                await lie(writer)
            finally:
                self.lying -= 1
            return False
        if path.startswith('/v1') and not allowed:
            return await reply(writer, 401, {'error': 'Unauthorized'})
        if path == '/health':
            self.asked += 1
            self.ill_answers -= (ill := self.ill_answers > 0)
            return await reply(writer, 503 if ill else self.health, {})
        if path == '/v1/models':
            served = [{'id': self.base or self.model, 'max_model_len': self.context_limit}]
            if self.base:
                served.append({'id': self.model, 'max_model_len': None, 'parent': self.base})
            return await reply(writer, 200, {'data': served})
        if path != '/v1/completions':
            return await reply(writer, 404, {'error': {'message': f'no {path}'}})
        body = json.loads(data)
        if body['model'] != self.model:
            return await reply(writer, 404, {'error': {'message': f'no model {body["model"]}'}})
        if isinstance(body['prompt'], str):
            ids = TEXTS.encode(body['prompt'], beginning=True)
        else:
            ids = list(body['prompt'])
        if len(ids) >= self.context_limit:
            message = f'maximum context length is {self.context_limit} tokens'
            return await reply(writer, 400, {'error': {'message': message}})
        if not body.get('stream'):
            return await reply(writer, 200, {'choices': [self._whole(body, ids)]})
        request = Request(body, headers.get('x-session-id', ''))
        return await self._generate(writer, request, ids)

    def _whole(self, body: dict[str, Any], ids: list[int]) -> dict[str, Any]:
        chooser = _Chooser(body, self.obeys_grammar)
        tokens: list[int] = []
        while len(tokens) < body['max_tokens'] and tokens[-1:] != [END]:
            tokens.append(chooser.next([*ids, *tokens]))
        told = [token + self.shift for token in ids] if self.tells_ids else None
        return {'token_ids': tokens, 'prompt_token_ids': told, 'finish_reason': 'stop'}

    async def _generate(
        self, writer: asyncio.StreamWriter, request: Request, ids: list[int]
    ) -> bool:
        self.requests.append(request)
        fault = self.fault(len(self.requests) - 1)
        if fault is not None and fault.kind in ('429', '500', '503'):
            head = {'Retry-After': fault.retry_after} if fault.retry_after else {}
            said = {'error': {'message': 'in trouble'}}
            return await reply(writer, int(fault.kind), said, head)
        if fault is not None and fault.kind == 'late':
            await asyncio.sleep(0.05)
        return await self.stream(writer, self._write_tokens(writer, request, ids, fault))

    async def _write_tokens(
        self, writer: asyncio.StreamWriter, request: Request, ids: list[int], fault: Fault | None
    ) -> bool:
        body = request.body
        chooser = _Chooser(body, self.obeys_grammar)
        finish = None
        while finish is None:
            await asyncio.sleep(self.step_s)
            if fault is not None and len(request.sent) == fault.after:
                match fault.kind:
                    case 'cut':
                        return False
                    case 'half':
                        write_chunk(writer, b'data: {"choices": [{"token_ids": [1')
                        await writer.drain()
                        return False
                    case 'hang':
                        await asyncio.sleep(3600)
                    case 'error':
                        write_event(writer, {'error': {'message': 'engine died', 'code': 500}})
                        await writer.drain()
                        return False
                    case 'garbage':
                        write_event(writer, {'choices': [{'token_ids': [-7, 'x']}]})
                        await writer.drain()
                        return False
                    case 'slow':
                        await asyncio.sleep(0.02)
            token = chooser.next([*ids, *request.sent])
            request.sent.append(token)
            if token in body['stop_token_ids']:
                finish = 'stop'
            elif len(request.sent) >= min(body['max_tokens'], self.context_limit - len(ids)):
                finish = 'length'
            choice = {'index': 0, 'text': '', 'token_ids': [token], 'finish_reason': finish}
            write_event(writer, {'choices': [choice | self.says], **self.says})
            await writer.drain()
        return True


class _Chooser:
    """The chaotic model behind a grammar."""

    def __init__(self, body: dict[str, Any], obeys_grammar: bool) -> None:
        self._matcher = None
        grammar = body.get('structured_outputs', {}).get('grammar')
        if grammar and obeys_grammar:
            lark = llguidance.LLMatcher.grammar_from_lark(grammar)
            self._matcher = llguidance.LLMatcher(_DECODER, lark)
            assert not self._matcher.is_error(), self._matcher.get_error()

    def next(self, ids: list[int]) -> int:
        allowed = np.ones(TEXTS.size, bool)
        if self._matcher is not None:
            mask = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
            allowed = np.unpackbits(mask, bitorder='little')[: TEXTS.size].astype(bool)
        tokens = np.flatnonzero(allowed).astype(np.uint64)
        seed = zlib.crc32(np.array(ids, np.int64).tobytes())
        scores = (tokens + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
        token = int(tokens[(scores >> np.uint64(20)).argmax()])
        if self._matcher is not None and token != END:
            assert self._matcher.consume_tokens([token]), self._matcher.get_error()
        return token
