"""An engine under test and everything that it said."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from timely_llm_ros.engines.engine import (
    EngineFailed,
    EngineReady,
    EngineStateChanged,
    GenerationEnded,
    SegmentGenerated,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from timely_llm_ros.engines.engine import EngineEvent, EngineState

LIMIT_S = 60.0
"""What never comes fails a test after this (s)."""


@dataclass
class EngineRun:
    """One run, from ``async with`` to its end. Blocking calls are answered at once."""

    engine: Any
    segments: dict[str, list[SegmentGenerated]] = field(default_factory=dict)
    ended: dict[str, GenerationEnded] = field(default_factory=dict)
    other: list[EngineEvent] = field(default_factory=list)
    state: EngineState | None = None
    answers: bool = True

    async def __aenter__(self) -> Self:
        self._seen = asyncio.Event()
        self.info = await self.engine.start(self._on_event)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.engine.close()

    def _on_event(self, event: EngineEvent) -> None:
        match event:
            case SegmentGenerated():
                assert event.generation_id not in self.ended
                self.segments.setdefault(event.generation_id, []).append(event)
                if event.segment.awaits_value and self.answers:
                    self.engine.resume(event.generation_id, 'true')
            case GenerationEnded():
                assert event.generation_id not in self.ended, 'ended twice'
                self.ended[event.generation_id] = event
            case EngineStateChanged():
                self.state = event.state
            case EngineFailed() | EngineReady():
                self.other.append(event)
        self._seen.set()

    async def until(self, done: Callable[[], object]) -> None:
        """Wait for something to come true."""
        async with asyncio.timeout(LIMIT_S):
            while not done():
                self._seen.clear()
                try:
                    async with asyncio.timeout(0.05):
                        await self._seen.wait()
                except TimeoutError:
                    continue

    async def all_ended(self, numbers: Sequence[int]) -> None:
        await self.until(lambda: all(f'g{number}' in self.ended for number in numbers))

    def plan(self, number: int) -> tuple[object, ...]:
        """How a generation went, all but its times."""
        name = f'g{number}'
        ended = self.ended[name]
        segments = [event.segment for event in self.segments.get(name, [])]
        assert [segment.index for segment in segments] == list(range(len(segments)))
        return ended.reason, ended.error, ended.token_ids, tuple(segments)
