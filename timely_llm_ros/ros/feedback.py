"""Limits a goal's feedback to ten messages a second and never loses the last one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

FEEDBACK_PERIOD_S = 0.1
"""Least time between two feedback messages of one goal (s)."""


class FeedbackThrottle:
    """Calls ``send``, which sends the present state, when asked to or as soon after as it may."""

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Callable[[], None]) -> None:
        self._loop, self._send = loop, send
        self._sent_s = float('-inf')
        self._timer: asyncio.TimerHandle | None = None

    def ask(self) -> None:
        """Have feedback sent, now or as soon as it may be."""
        if self._timer is not None:
            return
        due_s = self._sent_s + FEEDBACK_PERIOD_S
        if self._loop.time() >= due_s:
            self._now()
        else:
            self._timer = self._loop.call_at(due_s, self._now)

    def close(self) -> None:
        """Send nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._sent_s = float('inf')

    def _now(self) -> None:
        self._timer = None
        self._sent_s = self._loop.time()
        self._send()
