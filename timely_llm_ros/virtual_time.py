"""An asyncio loop whose time jumps to the next timer, so that hours pass in no time.

Only for programs that wait for timers and for each other: there are no sockets, pipes, child
processes or threads on it. Equal programs run equally, to the last bit.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar('T')


class _Jump:
    """Stands where a loop has its selector: instead of waiting it moves the time on."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError('nothing is scheduled: everything waits for something else')
        if timeout > 0:
            self._loop.jump()
        return []


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """Never waits: when nothing is ready, its time becomes that of the next timer.

    Time starts at 0. Waiting with nothing scheduled is a deadlock and raises RuntimeError.
    """

    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Jump(self)
        self._now_s = 0.0

    def time(self) -> float:
        """Return the virtual time (s)."""
        return self._now_s

    def jump(self) -> None:
        """Move the time to the next timer's."""
        if self._scheduled:
            # The due time of the timer itself: no rounding on the way.
            self._now_s = max(self._now_s, self._scheduled[0].when())

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none: nothing comes from outside."""

    def _write_to_self(self) -> None:
        """No other thread may wake it, so there is nothing to interrupt."""


def run_virtual(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from virtual time 0 to its end."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(coroutine)
