"""An asyncio loop whose time jumps to the next timer, so that hours pass in no time.

Only for programs that wait for timers and for each other: there are no sockets, pipes, child
processes or threads on it. Equal programs run equally, to the last bit.
"""

from __future__ import annotations

import asyncio
import heapq
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Coroutine, Sequence
    from contextvars import Context

T = TypeVar('T')
Ts = TypeVarTuple('Ts')

RESOLUTION_S = 1e-9
"""Timers that are no further apart than this (s) are due together."""

_MOST_CANCELLED = 100
"""Cancelled timers that are carried along, however few live ones there are."""


class _Callback(asyncio.Handle):
    """A handle, made without what only debugging needs."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: Sequence[Any],
        loop: VirtualTimeLoop,
        context: Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop, self._callback, self._args = loop, callback, args
        self._repr = self._source_traceback = None
        self._cancelled = False


class _Timer(_Callback, asyncio.TimerHandle):
    """A timer, made without what only debugging needs."""

    __slots__ = ()
    _loop: VirtualTimeLoop
    _scheduled: bool

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: Sequence[Any],
        loop: VirtualTimeLoop,
        context: Context | None,
    ) -> None:
        super().__init__(callback, args, loop, context)
        self._when, self._scheduled = when, True

    def cancel(self) -> None:
        """Have it not called; no-op if it was."""
        if not self._cancelled:
            self._cancelled = True
            self._args = ()
            if self._scheduled:
                self._loop._timer_handle_cancelled(self)


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """Never waits: when nothing is ready, its time becomes that of the next timer.

    Time starts at 0. Timers that are due at one moment are called in the order in which they were
    set. Waiting with nothing scheduled is a deadlock and raises RuntimeError.
    """

    _ready: deque[asyncio.Handle]
    _stopping: bool
    _closed: bool

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        # Tuples are compared without calling Python, which TimerHandle would.
        self._timers: list[tuple[float, int, _Timer]] = []
        self._timers_set = 0
        self._timers_cancelled = 0

    def time(self) -> float:
        """Return the virtual time (s)."""
        return self._now_s

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call back in the next round."""
        if self._closed:
            raise RuntimeError('the loop is closed: expected it to be open')
        handle = _Callback(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back when ``delay`` (s) has passed."""
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back at a time of the loop (s)."""
        if self._closed:
            raise RuntimeError('the loop is closed: expected it to be open')
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, self._timers_set, timer))
        self._timers_set += 1
        return timer

    def close(self) -> None:
        """Forget everything that is scheduled; idempotent."""
        super().close()
        self._timers.clear()

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        self._timers_cancelled += 1
        if self._timers_cancelled > max(_MOST_CANCELLED, len(self._timers) // 2):
            self._timers = [item for item in self._timers if not item[2].cancelled()]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    def _write_to_self(self) -> None:
        """Nothing: a loop that never waits needs no waking."""

    def _run_once(self) -> None:
        """Move the time on if nothing is ready, then call what is."""
        ready = self._ready
        if not ready and not self._stopping:
            self._jump()
        timers, due_s = self._timers, self._now_s + RESOLUTION_S
        while timers and timers[0][0] < due_s:
            timer = heapq.heappop(timers)[2]
            if timer._cancelled:
                self._timers_cancelled -= 1
            else:
                timer._scheduled = False
                ready.append(timer)
        # What these schedule is called in the next round.
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _jump(self) -> None:
        """Move the time to the next timer's."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._timers_cancelled -= 1
        if not timers:
            raise RuntimeError('nothing is scheduled: everything waits for something else')
        # The due time of the timer itself: no rounding on the way.
        self._now_s = max(self._now_s, timers[0][0])


def run_virtual(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from virtual time 0 to its end."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(coroutine)
