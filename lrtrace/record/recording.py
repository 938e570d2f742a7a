"""Writes what is received into a trace, on a thread of its own and with a bound on what waits."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from typing import TYPE_CHECKING

from lrtrace.storage import find_definition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lrtrace.storage import TopicQos, TraceWriter

LOOK_PERIOD_S = 0.02
"""How often the thread looks for messages (s): several in one go cost less than one by one."""

MESSAGE_BYTES = 200
"""What a message that waits takes besides its own bytes, roughly."""


class Recording:
    """A trace that is written while messages come. Call it from one thread only.

    What waits to be written is bounded: while the disk is slower than the messages, those that
    find no room are dropped and counted. Nothing here blocks the caller but :meth:`close`.

    Args:
        writer: Where to; used by nobody else from now on.
        max_backlog_bytes: What may wait to be written.
        flush_period_s: A kill loses at most the messages of this time (s).
    """

    def __init__(
        self,
        writer: TraceWriter,
        *,
        max_backlog_bytes: int,
        flush_period_s: float,
    ) -> None:
        self.failure = ''
        """Why the trace could not be written on; empty if it can."""
        self.dropped: Counter[str] = Counter()
        """Messages for which there was no room, by topic."""
        self.dropped_count = 0
        """Their number."""
        self._writer = writer
        self._max_backlog_bytes, self._flush_period_s = max_backlog_bytes, flush_period_s
        self._waiting: deque[Callable[[], None] | tuple[str, bytes, int, int, int]] = deque()
        # Each has one thread that changes it, so neither needs a lock.
        self._taken_bytes = self._done_bytes = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name='recording', daemon=True)
        self._thread.start()

    @property
    def folder(self) -> Path:
        """The trace's folder."""
        return self._writer.folder

    @property
    def message_count(self) -> int:
        """Messages written so far."""
        return self._writer.message_count

    @property
    def file_count(self) -> int:
        """Files written so far."""
        return self._writer.file_count

    @property
    def topic_count(self) -> int:
        """Topics so far."""
        return len(self._writer.topics)

    @property
    def backlog_bytes(self) -> int:
        """What waits to be written."""
        return self._taken_bytes - self._done_bytes

    def add_topic(self, name: str, message_type: str, qos: TopicQos) -> None:
        """Add a topic; its messages may come at once.

        Raises:
            TraceError: The type's definition cannot be found.
        """
        find_definition(message_type)
        self._waiting.append(lambda: self._writer.add_topic(name, message_type, qos))

    def note(self, values: Mapping[str, str]) -> None:
        """Add to what is known of the run."""
        self._waiting.append(lambda: self._writer.note(values))

    def take(
        self, topic: str, data: bytes, *, log_ns: int, publish_ns: int, sequence: int = 0
    ) -> None:
        """Take one message of a topic that was added; drop and count it if there is no room."""
        size = len(data) + MESSAGE_BYTES
        if self.failure or self.backlog_bytes + size > self._max_backlog_bytes:
            self.dropped[topic] += 1
            self.dropped_count += 1
            return
        self._taken_bytes += size
        self._waiting.append((topic, data, log_ns, publish_ns, sequence))

    def close(self) -> None:
        """Write what waits and end the trace. One that cannot be written on is left as it is."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            flushed_s = time.monotonic()
            while not self._ending.wait(LOOK_PERIOD_S):
                self._write_waiting()
                if time.monotonic() - flushed_s >= self._flush_period_s:
                    self._note_dropped()
                    self._writer.flush()
                    flushed_s = time.monotonic()
            self._write_waiting()
            self._note_dropped()
            self._writer.close()
        except OSError as err:
            # What was written before stays readable.
            self._fail(err.strerror or str(err))
        except Exception as err:  # noqa: BLE001 - whatever it is, the recorder must say it
            self._fail(repr(err))

    def _fail(self, why: str) -> None:
        self.failure = f'{self._writer.folder}: {why}'

    def _note_dropped(self) -> None:
        self._writer.note({'dropped_messages': str(self.dropped_count)})

    def _write_waiting(self) -> None:
        while self._waiting:
            item = self._waiting.popleft()
            if not isinstance(item, tuple):
                item()
                continue
            topic, data, log_ns, publish_ns, sequence = item
            self._writer.write(topic, data, log_ns=log_ns, publish_ns=publish_ns, sequence=sequence)
            self._done_bytes += len(data) + MESSAGE_BYTES
