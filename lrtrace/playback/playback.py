"""Where a replay stands in a trace and which messages are due, without ROS, threads or a clock.

Times of a trace are in ns since the epoch; times of the caller's clock are in s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcap.records import Channel, Message, Schema

    from lrtrace.storage import Trace

    Recorded = tuple[Schema, Channel, Message]

MIN_RATE, MAX_RATE = 0.01, 100.0


class Playback:
    """A position in a trace that moves with a clock while it is not paused.

    Messages come in the order of recording. A trace that was cut off plays up to its last sound
    message.

    Args:
        trace: The trace.
        wanted: Whether messages of a topic are played.
        rate: Seconds of the trace that pass in a second of the clock.
        paused: Whether it begins paused.
        now_s: The clock's time.

    Raises:
        ConfigurationError: The rate is out of range.
        TraceError: The trace cannot be read.
    """

    def __init__(
        self,
        trace: Trace,
        *,
        wanted: Callable[[str], bool],
        rate: float = 1.0,
        paused: bool = False,
        now_s: float = 0.0,
    ) -> None:
        summary = trace.summary()
        self.start_ns, self.end_ns = summary.start_ns, summary.end_ns
        self._trace, self._wanted = trace, wanted
        self._rate = _checked_rate(rate)
        self.paused = paused
        """Changed by :meth:`pause` and :meth:`resume` alone."""
        # The position at a time of the clock.
        self._anchor_ns, self._anchor_s = self.start_ns, now_s
        self._rest = self._from(self.start_ns)
        self._next: Recorded | None = next(self._rest, None)

    @property
    def duration_s(self) -> float:
        """From the first message to the last (s)."""
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def ended(self) -> bool:
        """Whether the last message was played."""
        return self._next is None

    def position_ns(self, now_s: float) -> int:
        """Return where it is, at most the trace's end."""
        if self.paused:
            return self._anchor_ns
        moved_ns = round((now_s - self._anchor_s) * self._rate * 1e9)
        return min(self._anchor_ns + max(0, moved_ns), self.end_ns)

    def position_s(self, now_s: float) -> float:
        """Return where it is (s from the trace's start)."""
        return (self.position_ns(now_s) - self.start_ns) / 1e9

    def pause(self, now_s: float) -> None:
        """Stop; no-op if it is paused."""
        self._anchor(now_s)
        self.paused = True

    def resume(self, now_s: float) -> None:
        """Go on; no-op if it is not paused."""
        self._anchor(now_s)
        self.paused = False

    def set_rate(self, rate: float, now_s: float) -> None:
        """Go on faster or slower.

        Raises:
            ConfigurationError: The rate is out of range; nothing changes.
        """
        checked = _checked_rate(rate)
        self._anchor(now_s)
        self._rate = checked

    def seek(self, position_s: float, now_s: float) -> None:
        """Go to a position; the next message is the first that was recorded there or later.

        Raises:
            ConfigurationError: The position is not within the trace; nothing changes.
        """
        if not 0 <= position_s <= self.duration_s:
            raise ConfigurationError(
                f'position {position_s!r} s: expected 0 to {self.duration_s:.3f} s'
            )
        self._anchor_ns = self.start_ns + round(position_s * 1e9)
        self._anchor_s = now_s
        self._rest = self._from(self._anchor_ns)
        self._next = next(self._rest, None)

    def step(self, now_s: float) -> Recorded | None:
        """Return the next message and move to where it was recorded; None at the end."""
        message = self._next
        if message is not None:
            self._next = next(self._rest, None)
            self._anchor_ns = max(self.position_ns(now_s), message[2].log_time)
            self._anchor_s = now_s
        return message

    def due(self, now_s: float) -> Iterator[Recorded]:
        """Yield the messages up to the present position, each once."""
        if self.paused:
            return
        position_ns = self.position_ns(now_s)
        while self._next is not None and self._next[2].log_time <= position_ns:
            message, self._next = self._next, next(self._rest, None)
            yield message

    def _anchor(self, now_s: float) -> None:
        self._anchor_ns, self._anchor_s = self.position_ns(now_s), now_s

    def _from(self, place_ns: int) -> Iterator[Recorded]:
        return (
            found
            for found in self._trace.raw()
            if found[2].log_time >= place_ns and self._wanted(found[1].topic)
        )


def _checked_rate(rate: float) -> float:
    if not MIN_RATE <= rate <= MAX_RATE:
        raise ConfigurationError(f'rate {rate!r}: expected {MIN_RATE:g} to {MAX_RATE:g}')
    return rate
