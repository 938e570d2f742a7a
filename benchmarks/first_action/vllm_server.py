"""A vLLM with our scheduler inside that plans one task at a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from timely_llm_ros.engines import (
    EngineStateChanged,
    GenerationEnded,
    SegmentGenerated,
    VllmConfig,
    create_engine,
)
from timely_llm_ros.scheduling import SchedulingOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from timely_llm_ros.engines import EngineState, GenerationRequest

Result = TypeVar('Result')


class VllmServer:
    """The engine, an event loop of its own, and what the engine says."""

    def __init__(self, kv_tokens: int, *, max_running: int) -> None:
        self.state: EngineState | None = None
        """The latest one."""
        self.engine = create_engine(
            VllmConfig(
                policy='fcfs',
                max_running=max_running,
                max_kv_tokens=kv_tokens,
                scheduling=SchedulingOptions(admission='fixed'),
            )
        )
        """The engine."""
        self._events: dict[str, list[Any]] = {}
        self._news = asyncio.Event()
        self._runner = asyncio.Runner()
        self.run(self.engine.start(self._on_event))

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on its loop."""
        return self._runner.run(work)

    def submit(self, request: GenerationRequest) -> None:
        """Have a task planned."""
        self._events[request.generation_id] = []
        self.engine.submit(request)

    async def next(self, name: str) -> SegmentGenerated | GenerationEnded:
        """Return the next thing that becomes of a task."""
        events = self._events[name]
        await self.until(lambda: events)
        event: SegmentGenerated | GenerationEnded = events.pop(0)
        return event

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait for a condition on what the engine said."""
        while not condition():
            self._news.clear()
            await self._news.wait()

    def close(self) -> None:
        """End it."""
        self.run(self.engine.close())
        self._runner.close()

    def _on_event(self, event: Any) -> None:
        if isinstance(event, EngineStateChanged):
            self.state = event.state
        elif isinstance(event, SegmentGenerated | GenerationEnded):
            self._events[event.generation_id].append(event)
        self._news.set()
