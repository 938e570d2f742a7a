"""HTTP servers that are to the engine ``openai`` what vLLM's are, at a simulated engine's pace.

They write the plans of a workload, token for token as many as the simulated engine writes, and one
more that ends a plan, as a model's does. A request's session says which plan it is of, and only
that: where it goes is up to whoever sends it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import random
import re
import zlib
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from aiohttp import web

from benchmarks.operation.batcher import Asked, Batcher
from timely_llm_ros.engines import OpenAIConfig
from timely_llm_ros.engines.openai import (
    PROBE_PLAN,
    OpenAIEngine,
    ServedModel,
    ServerOptions,
    ServerSequences,
)
from timely_llm_ros.engines.texts import TokenCodec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
    from multiprocessing.connection import Connection

    from timely_llm_ros.engines import EngineInfo
    from timely_llm_ros.engines.simulated import SimulatedConfig
    from timely_llm_ros.engines.tokens import Sampling
    from timely_llm_ros.skills import Prompt

MODEL = 'paced'
END = 0
SIZE = 1 << 12
"""Ids of what servers write are below this, those of prompts are not."""

_PIECES = (
    '', 'act(', ');', 'halt;', PROBE_PLAN,
    *(f'{number:0{digits}}' for digits in (1, 2, 3) for number in range(10**digits)),
)  # fmt: skip
"""Texts of the first ids. All further ones stand for none, so that no two plans are alike."""

_IDS = {text: number for number, text in enumerate(_PIECES)}
_PIECE = re.compile('|'.join(map(re.escape, _PIECES[1:5])) + '|[0-9]{1,3}')
_CHARACTERS_PER_TOKEN = 4


class PlanCodec(TokenCodec):
    """The tokens of a workload's plans, and of prompts as many as the simulated engine counts."""

    def __init__(self) -> None:
        self.end_ids, self.size = frozenset({END}), SIZE

    def fixed_ids(self, prompt: Prompt) -> list[int]:
        """Return the ids of a prompt's fixed part."""
        return _prompt_ids(prompt.fixed)

    def body_ids(self, prompt: Prompt, *, beginning: bool) -> list[int]:  # noqa: ARG002
        """Return the ids of a prompt's body."""
        return _prompt_ids(prompt.body)

    def encode(self, text: str, *, beginning: bool = False) -> list[int]:  # noqa: ARG002
        """Return the ids of what there is of a plan's text."""
        return [_IDS[piece] for piece in _PIECE.findall(text)]

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes that an id stands for."""
        return _PIECES[token].encode() if token < len(_PIECES) else b''

    def plan(self, name: str, pieces: Iterable[str]) -> list[int]:
        """Return a workload's plan: as many ids as it has pieces, and the one that ends it."""
        rng = random.Random(name)
        ids: list[int] = []
        for piece in pieces:
            ids.append(rng.randrange(len(_PIECES), SIZE))
            if piece:
                statement = self.encode(piece)
                # With fewer tokens its statement would reach into the segment before.
                assert min(ids[-len(statement) :]) >= len(_PIECES), f'{piece}: expected more tokens'
                ids[-len(statement) :] = statement
        return [*ids, END]


def _prompt_ids(text: str) -> list[int]:
    pieces = (text[at : at + _CHARACTERS_PER_TOKEN] for at in range(0, len(text), 4))
    return [SIZE + zlib.crc32(piece.encode()) for piece in pieces]


class PacedEngine(OpenAIEngine):
    """The engine ``openai`` on these servers, for a workload's texts instead of a model's.

    Args:
        urls: The servers.
        config: The options of the simulated engine that each of them is as fast as.
        each: How many of them each address stands for.
    """

    def __init__(self, urls: Sequence[str], config: SimulatedConfig, each: int = 1) -> None:
        super().__init__(
            OpenAIConfig(
                servers=ServerOptions(tuple(urls)),
                policy=config.policy,
                scheduling=config.scheduling,
                max_running=each * config.max_running,
                max_kv_tokens=each * config.max_kv_tokens,
            )
        )

    def _make_sequences(
        self, sampling: Sampling, *, observations: bool
    ) -> tuple[PlanCodec, ServerSequences]:
        codec = PlanCodec()
        return codec, ServerSequences(codec, sampling, observations=observations)

    def _describe(self, served: ServedModel, vocabulary: int, load_s: float) -> EngineInfo:
        # No tokenizer's folder: prompts are then as the simulated engine has them.
        return replace(super()._describe(served, vocabulary, load_s), tokenizer='')


@asynccontextmanager
async def front(
    batchers: Sequence[Batcher], plans: Mapping[str, Sequence[int]]
) -> AsyncIterator[str]:
    """Serve at one address, each request by the next of the batchers; yield the address.

    Args:
        batchers: One for a server alone. With more of them this is a plain load balancer.
        plans: Each session's plan.
    """
    turn = itertools.cycle(batchers)

    async def health(_: web.Request) -> web.Response:
        return web.Response()

    async def models(_: web.Request) -> web.Response:
        return web.json_response({'data': [{'id': MODEL, 'max_model_len': batchers[0].kv_tokens}]})

    async def complete(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if not body.get('stream'):
            return web.json_response({'choices': [_probed(body)]})
        ids = body['prompt']
        written = sum(token < SIZE for token in ids)
        follows = plans[unquote(request.headers['X-Session-ID'])][written:][: body['max_tokens']]
        asked = Asked(ids, follows, frozenset(body['stop_token_ids']), written > 0)
        response = web.StreamResponse(headers={'Content-Type': 'text/event-stream'})
        await response.prepare(request)
        batcher, finish = next(turn), ''
        batcher.ask(asked)
        try:
            while not finish:
                token, finish = await asked.told.get()
                await response.write(_event(token, finish))
            await response.write(b'data: [DONE]\n\n')
        except ConnectionResetError:
            # Its client hung up, which mostly is known before something is written.
            pass
        finally:
            batcher.leave(asked)
        return response

    app = web.Application()
    app.add_routes(
        [
            web.get('/health', health),
            web.get('/v1/models', models),
            web.post('/v1/completions', complete),
        ]
    )
    # A client that hangs up ends its request.
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, '127.0.0.1', 0).start()
    steps = [asyncio.create_task(one.run()) for one in batchers]
    try:
        yield f'http://127.0.0.1:{runner.addresses[0][1]}'
    finally:
        await runner.cleanup()
        for step in steps:
            step.cancel()
        await asyncio.gather(*steps, return_exceptions=True)


def _event(token: int, finish: str) -> bytes:
    choice = {'index': 0, 'text': '', 'token_ids': [token], 'finish_reason': finish or None}
    return f'data: {json.dumps({"choices": [choice]})}\n\n'.encode()


def _probed(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to what an engine asks at its start."""
    codec, prompt = PlanCodec(), body['prompt']
    ids = codec.encode(prompt) if isinstance(prompt, str) else prompt
    written = [*codec.encode(PROBE_PLAN), END]
    return {'token_ids': written, 'prompt_token_ids': ids, 'finish_reason': 'stop'}


@dataclass(slots=True)
class Paced:
    """Servers in a process of their own: where they are, and at last what they had to do.

    Attributes:
        urls: Their addresses, or the only one of what is before them all.
        computed: Tokens of prompts that they computed together.
    """

    urls: list[str]
    computed: int = 0


@asynccontextmanager
async def paced_servers(
    config: SimulatedConfig, plans: Mapping[str, Sequence[str]], number: int, *, balanced: bool
) -> AsyncIterator[Paced]:
    """Have servers there, in a process of their own.

    Args:
        config: The options of the simulated engine that each of them is as fast as.
        plans: Each session's plan, piece by piece.
        number: How many there are.
        balanced: Whether they have one address, which gives each request to the next of them.
    """
    codec = PlanCodec()
    ids = {name: codec.plan(name, pieces) for name, pieces in plans.items()}
    pace = config.paced, config.max_running, config.max_kv_tokens
    groups = [number] if balanced else [1] * number
    spawn = multiprocessing.get_context('spawn')
    here, there = spawn.Pipe()
    process = spawn.Process(target=_run, args=(there, pace, ids, groups), daemon=True)
    process.start()
    there.close()
    try:
        found = Paced(await asyncio.to_thread(here.recv))
        yield found
        here.send(None)
        found.computed = await asyncio.to_thread(here.recv)
    finally:
        # Without its pipe it ends.
        here.close()
        await asyncio.to_thread(process.join)


def _run(
    pipe: Connection, pace: tuple[Any, ...], plans: Mapping[str, list[int]], groups: list[int]
) -> None:
    async def serve() -> None:
        batchers = [[Batcher(*pace) for _ in range(number)] for number in groups]
        async with AsyncExitStack() as stack:
            pipe.send([await stack.enter_async_context(front(each, plans)) for each in batchers])
            with suppress(EOFError):
                await asyncio.to_thread(pipe.recv)
                pipe.send(sum(one.computed for each in batchers for one in each))

    asyncio.run(serve())
