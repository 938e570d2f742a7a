"""Repeats a safe action that a robot did not take, until the robot takes it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from timely_llm_ros.errors import TimelyError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_logger = logging.getLogger(__name__)

PERIOD_S = 0.1
"""Pause between two tries (s)."""


class SafeActionRetry:
    """Tries a safe action again and again. Used from one asyncio loop.

    Args:
        attempt: Has the robot take it, or raises a ``TimelyError``.
    """

    def __init__(self, attempt: Callable[[], Awaitable[None]]) -> None:
        self._attempt = attempt
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Try from now on; no-op while it tries."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._try())

    async def end(self) -> bool:
        """Stop trying; return whether the safe action was still owed. Idempotent."""
        task, self._task = self._task, None
        if task is None or task.done():
            return False
        task.cancel()
        await asyncio.wait({task})
        return True

    async def _try(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_S)
            try:
                await self._attempt()
            except TimelyError as err:
                _logger.debug('safe action not taken yet: %s', err)
            else:
                _logger.warning('the robot is back and took the safe action that it owed')
                return
