"""Timing a model behind completions: what a made-up server takes is what is found."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from timely_llm_ros.engines.openai import served_times
from timely_llm_ros.engines.openai.completions import Chunk
from timely_llm_ros.engines.openai.served_times import measure_times
from timely_llm_ros.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

SQUARE_S, TOKEN_S, PROMPT_S = 2e-7, 1e-4, 0.02
KV_TOKEN_S, STEP_S = 1e-6, 0.01


class Server:
    """Serves all its streams in steps, on a clock of its own, and caches prompts token by token."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.requests = 0
        self._cached: set[tuple[int, ...]] = set()
        self._new: list[dict[str, Any]] = []
        self._streams: dict[int, tuple[asyncio.Queue[Chunk], list[int]]] = {}
        self._steps: asyncio.Task[None] | None = None
        self._lengths: dict[int, int] = defaultdict(int)

    async def tokens(self, body: dict[str, Any]) -> AsyncGenerator[Chunk, None]:
        self.requests += 1
        number, queue = self.requests, asyncio.Queue[Chunk]()
        self._streams[number] = queue, list(body['prompt'])
        if self._steps is None or self._steps.done():
            self._steps = asyncio.create_task(self._serve())
        try:
            for place in range(body['max_tokens']):
                chunk = await queue.get()
                last = place == body['max_tokens'] - 1
                yield Chunk(chunk.token_ids, 'length' if last else '')
        finally:
            del self._streams[number]

    async def _serve(self) -> None:
        begun: set[int] = set()
        for _ in range(6):
            await asyncio.sleep(0)  # Who comes together begins together.
        while self._streams:
            streams = dict(self._streams)
            for number, (_, ids) in streams.items():
                if number not in begun:
                    self.now_s += self._prefill_s(ids)
            decoding = [ids for number, (_, ids) in streams.items() if number in begun]
            if decoding:
                self.now_s += STEP_S * (1 + len(decoding)) / 2
                self.now_s += KV_TOKEN_S * sum(map(len, decoding))
            begun |= set(streams)
            for queue, ids in streams.values():
                ids.append(7)
                queue.put_nowait(Chunk((7,)))
            for _ in range(6):
                await asyncio.sleep(0)  # Each reads the clock before it goes on.

    def _prefill_s(self, ids: list[int]) -> float:
        cached = 0
        while cached < len(ids) - 1 and tuple(ids[: cached + 1]) in self._cached:
            cached += 1
        self._cached.update(tuple(ids[: n + 1]) for n in range(len(ids)))
        square = SQUARE_S * (len(ids) ** 2 - cached**2)
        return square + TOKEN_S * (len(ids) - cached) + PROMPT_S


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    monkeypatch.setattr(time, 'perf_counter', lambda: made.now_s)
    return made


async def test_coefficients_are_those_of_the_server(server: Server) -> None:
    found = await measure_times(
        server.tokens, vocabulary=1000, context_limit=512, max_running=4, kv_tokens=4096
    )
    assert found.prefill_square_s == pytest.approx(SQUARE_S, rel=0.05)
    assert found.prefill_token_s == pytest.approx(TOKEN_S, rel=0.05)
    assert found.prefill_s == pytest.approx(PROMPT_S, rel=0.05)
    assert [entry.batch for entry in found.decode] == [1, 4]
    for entry in found.decode:
        assert entry.step_s == pytest.approx(STEP_S * (1 + entry.batch) / 2, rel=0.05)
        assert entry.kv_token_s == pytest.approx(KV_TOKEN_S, rel=0.1)
    assert [margin.coverage for margin in found.margins] == [0.9, 0.95]


async def test_a_slow_server_is_measured_less(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {'vocabulary': 1000, 'context_limit': 128, 'max_running': 2, 'kv_tokens': 4096}
    await measure_times(server.tokens, **options)
    often = server.requests
    monkeypatch.setattr(served_times, 'MOST_S', 0.0)
    await measure_times(server.tokens, **options)
    assert server.requests - often < often / 2


async def test_a_context_without_room_is_refused(server: Server) -> None:
    with pytest.raises(EngineError, match='expected room for at least 16'):
        await measure_times(
            server.tokens, vocabulary=1000, context_limit=20, max_running=4, kv_tokens=4096
        )


async def test_a_server_that_fails_says_why() -> None:
    async def tokens(body: dict[str, Any]) -> AsyncGenerator[Chunk, None]:
        if body:
            raise EngineError('no more')
        yield Chunk(())

    with pytest.raises(EngineError, match='no more'):
        await measure_times(
            tokens, vocabulary=1000, context_limit=512, max_running=4, kv_tokens=4096
        )


async def test_whoever_waits_no_longer_leaves_no_thread() -> None:
    asked = asyncio.Event()

    async def tokens(_body: dict[str, Any]) -> AsyncGenerator[Chunk, None]:
        asked.set()
        await asyncio.Event().wait()
        yield Chunk(())

    task = asyncio.create_task(
        measure_times(tokens, vocabulary=1000, context_limit=512, max_running=4, kv_tokens=4096)
    )
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(60):
        await asyncio.get_running_loop().shutdown_default_executor()
