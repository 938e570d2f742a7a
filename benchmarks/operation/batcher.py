"""A server's continuous batching, first come, first served, and its prefix cache, as stock vLLM's.

Nothing is computed: a step takes as long as a simulated engine's, and what it writes is given.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timely_llm_ros.engines.simulated import StepTimeModel, StepWork

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

BLOCK = 16
"""Tokens whose KV is kept together: vLLM's block size."""


class KeptBlocks:
    """Which blocks of tokens have their KV here; those that were not used for longest go first.

    A block is known by its tokens and all before them.

    Args:
        tokens: Tokens whose KV has room.
    """

    def __init__(self, tokens: int) -> None:
        self._most = tokens // BLOCK
        self._kept: dict[int, None] = {}

    def cached(self, ids: Sequence[int]) -> int:
        """Return how many tokens of a prompt need not be computed; the last one always must."""
        found = 0
        for key in self._keys(ids[:-1]):
            if key not in self._kept:
                break
            found += BLOCK
        return found

    def keep(self, ids: Sequence[int]) -> None:
        """Keep a context, whose beginning goes after its end."""
        for key in reversed(self._keys(ids)):
            self._kept.pop(key, None)
            self._kept[key] = None
        while len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]

    @staticmethod
    def _keys(ids: Sequence[int]) -> list[int]:
        keys, key = [], 0
        for start in range(0, len(ids) - BLOCK + 1, BLOCK):
            key = hash((key, tuple(ids[start : start + BLOCK])))
            keys.append(key)
        return keys


@dataclass(slots=True, eq=False)
class Asked:
    """A request: the ids of its prompt, to which what is written is added.

    Attributes:
        ids: The context.
        follows: What is written at most.
        stops: Tokens at which it ends before that.
        goes_on: Whether its prompt holds what was written before.
        told: Each token that was written, and why the request ends with it; '' where it goes on.
        written: How many tokens were.
    """

    ids: list[int]
    follows: Sequence[int]
    stops: Collection[int]
    goes_on: bool
    told: asyncio.Queue[tuple[int, str]] = field(default_factory=asyncio.Queue)
    written: int = 0


class Batcher:
    """Serves requests in the order in which they come, each until it ends.

    Prompts are computed in the step that they join, as far as their KV is not here.

    Args:
        step_time: How long a step takes.
        places: Most requests in one step.
        kv_tokens: Tokens whose KV has room.
    """

    def __init__(self, step_time: StepTimeModel, places: int, kv_tokens: int) -> None:
        self.kv_tokens = kv_tokens
        self.computed = 0
        """Tokens of prompts that were computed."""
        self._step_time, self._places = step_time, places
        self._blocks = KeptBlocks(kv_tokens)
        self._waiting: deque[Asked] = deque()
        self._running: list[Asked] = []
        self._some = asyncio.Event()

    def ask(self, asked: Asked) -> None:
        """Take a request, which waits where there is no place."""
        self._waiting.append(asked)
        self._some.set()

    def leave(self, asked: Asked) -> None:
        """Let a request go, whether it has ended or its client has hung up; its KV stays."""
        if asked in self._waiting:
            self._waiting.remove(asked)
        if asked in self._running:
            self._running.remove(asked)
            if asked.written:
                # The latest token has no KV yet.
                self._blocks.keep(asked.ids[:-1])

    async def run(self) -> None:
        """Make one step after another, for ever."""
        while True:
            self._some.clear()
            work = self._next()
            if not work.batch:
                await self._some.wait()
                continue
            running = tuple(self._running)
            await asyncio.sleep(self._step_time.step_s(work))
            for asked in running:
                # It may have left meanwhile.
                if asked in self._running:
                    self._write(asked)

    def _next(self) -> StepWork:
        """Let requests join while there is place, and return what the next step has to do."""
        prefills, resumed = [], 0
        while self._waiting and len(self._running) < self._places:
            asked = self._waiting.popleft()
            self._running.append(asked)
            prefills.append((self._blocks.cached(asked.ids), len(asked.ids)))
            resumed += asked.goes_on
        self.computed += sum(after - before for before, after in prefills)
        kv_tokens = sum(len(asked.ids) for asked in self._running)
        begun = len(prefills) - resumed
        return StepWork(len(self._running), kv_tokens, tuple(prefills), begun, resumed)

    def _write(self, asked: Asked) -> None:
        token = asked.follows[asked.written]
        asked.ids.append(token)
        asked.written += 1
        finish = 'length' if asked.written == len(asked.follows) else ''
        if token in asked.stops:
            finish = 'stop'
        if finish:
            self.leave(asked)
        asked.told.put_nowait((token, finish))
