"""The start, loss and restart of a process, for engines that generate in one of their own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from timely_llm_ros.engines.engine import (
    EngineFailed,
    EngineReady,
    GenerationEnded,
    deliver,
)
from timely_llm_ros.errors import EngineError, TimelyError
from timely_llm_ros.processes import Backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from timely_llm_ros.engines.engine import EngineEvent, EngineInfo


FIRST_RESTART_S, LAST_RESTART_S = 0.25, 15.0
"""Pause before the first restart in a row; it doubles up to the last."""


class Supervisor:
    """Starts an engine's process, and another one where that process is lost.

    The engine's generations live in the process. If it ends, :class:`EngineFailed` says why, each
    generation ends with ``error``, and :class:`EngineReady` says when another process is there.

    Args:
        name: The engine's name, for the names of tasks.
        launch: Starts a process in place of the one before, if any. It calls :meth:`mark_ready`
            and returns once the model is loaded, and raises a :class:`TimelyError` otherwise.
        autopsy: Returns why the process ended.
    """

    def __init__(
        self,
        name: str,
        *,
        launch: Callable[[], Awaitable[EngineInfo]],
        autopsy: Callable[[], Awaitable[str]],
    ) -> None:
        self._name = name
        self._launch, self._autopsy = launch, autopsy
        self._on_event: Callable[[EngineEvent], None] | None = None
        self._generations: set[str] = set()
        self._restart: asyncio.Task[None] | None = None
        self._backoff = Backoff(FIRST_RESTART_S, LAST_RESTART_S)
        self._begun = False
        self.ready = False
        """Whether there is a process with its model loaded."""

    def __contains__(self, generation_id: object) -> bool:
        return generation_id in self._generations

    async def start(self, on_event: Callable[[EngineEvent], None]) -> EngineInfo:
        """Start the process and return what it runs.

        Raises:
            EngineError: This is a second call.
            TimelyError: The process cannot be started.
        """
        if self._begun:
            raise EngineError('start() a second time: expected one call')
        self._begun = True
        self._on_event = on_event
        return await self._launch()

    async def close(self) -> None:
        """Start no further process; no event comes after this."""
        self._on_event = None
        self.ready = False
        restart, self._restart = self._restart, None
        if restart is not None:
            restart.cancel()
            await asyncio.gather(restart, return_exceptions=True)

    def mark_ready(self) -> None:
        """Note that the process has loaded its model."""
        self.ready = True
        self._backoff.reset()

    def admit(self, generation_id: str) -> bool:
        """Return whether a generation can begin; without a process it ends with ``error``."""
        if self.ready:
            self._generations.add(generation_id)
            return True
        ended = GenerationEnded(generation_id, 'error', 'the engine is not running', 0, 0.0)
        asyncio.get_running_loop().call_soon(self.tell, ended)
        return False

    def tell(self, event: EngineEvent) -> None:
        """Pass an event on to the engine's user."""
        if isinstance(event, GenerationEnded):
            self._generations.discard(event.generation_id)
        if self._on_event is not None:
            deliver(self._on_event, event)

    def fail(self, generation_id: str, error: str) -> None:
        """End a generation that has not ended yet."""
        if generation_id in self._generations:
            self.tell(GenerationEnded(generation_id, 'error', error, 0, 0.0))

    def lost(self) -> None:
        """Note that the process has ended; nothing happens if it was not ready."""
        if not self.ready:
            return
        self.ready = False
        self._restart = asyncio.get_running_loop().create_task(
            self._recover(), name=f'{self._name} engine restart'
        )

    async def _recover(self) -> None:
        """Say what was lost, then start processes until one is ready."""
        error = await self._autopsy()
        self.tell(EngineFailed(error))
        for generation_id in sorted(self._generations):
            self.fail(generation_id, error)
        while True:
            await asyncio.sleep(self._backoff.next_s())
            try:
                info = await self._launch()
            except TimelyError as err:
                self.tell(EngineFailed(str(err)))
            else:
                break
        self.tell(EngineReady(info))
