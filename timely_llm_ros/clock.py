"""Clocks. The planner sees time only through :class:`Clock`, so it runs on any of them."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Seconds from an arbitrary origin, never going back."""

    def now(self) -> float:
        """Return the present time (s)."""
        ...

    async def sleep(self, duration_s: float) -> None:
        """Return once ``duration_s`` (s, negative counts as 0) have passed on this clock."""
        ...


class WallClock:
    """The machine's monotonic clock, comparable between the processes of one machine."""

    def now(self) -> float:
        """Return the monotonic time (s)."""
        return time.monotonic()

    async def sleep(self, duration_s: float) -> None:
        """Sleep for ``duration_s`` of real time."""
        await asyncio.sleep(max(0.0, duration_s))


class LoopClock:
    """The running asyncio loop's own time: virtual on a virtual-time loop."""

    def now(self) -> float:
        """Return the loop's time (s). Must be called while a loop runs."""
        return asyncio.get_running_loop().time()

    async def sleep(self, duration_s: float) -> None:
        """Sleep for ``duration_s`` of the loop's time."""
        await asyncio.sleep(max(0.0, duration_s))
