"""Asyncio tasks that nobody awaits: their failures are logged, and the end waits for them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

_logger = logging.getLogger(__name__)


class TaskGroup:
    """Running asyncio tasks, in the order in which they were started."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start a coroutine; what it raises is logged."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._discard)
        return task

    async def join(self, limit_s: float) -> None:
        """Wait until all have ended; cancel those that have not after ``limit_s`` (s)."""
        if await self._wait(limit_s):
            return
        for task in tuple(self._tasks):
            task.cancel()
        if not await self._wait(limit_s):
            _logger.error(
                'still running after %g s and a cancel: %s',
                limit_s,
                ', '.join(sorted(task.get_name() for task in self._tasks)),
            )

    async def _wait(self, limit_s: float) -> bool:
        deadline_s = asyncio.get_running_loop().time() + limit_s
        # Tasks that end may start others, so look again until none is left.
        while self._tasks:
            left_s = deadline_s - asyncio.get_running_loop().time()
            if left_s <= 0:
                return False
            await asyncio.wait(self._tasks, timeout=left_s)
        return True

    def _discard(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error('%s failed', task.get_name(), exc_info=error)
