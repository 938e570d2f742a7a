"""Writes what is received into a trace on a thread of its own, with bounded memory."""

from __future__ import annotations

import errno
import threading
import time
from collections import Counter, deque
from typing import TYPE_CHECKING

from lrtrace.record.recorder_health import RecorderCounts
from lrtrace.storage import find_definition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lrtrace.storage import TopicQos, TraceWriter

LOOK_PERIOD_S = 0.02
"""How often the thread looks for messages (s); several at a time cost less than one by one."""

MESSAGE_BYTES = 200
"""What a waiting message takes besides its data, roughly."""


class Recording:
    """A trace that is written while messages come. For one thread; only :meth:`close` blocks it.

    At most ``max_backlog_bytes`` wait to be written. While the disk is slower than the messages,
    those that find no room are dropped and counted. A kill loses at most the messages of
    ``flush_period_s``. Nobody else may use the writer from now on.
    """

    def __init__(
        self, writer: TraceWriter, *, max_backlog_bytes: int, flush_period_s: float
    ) -> None:
        self.failure = ''
        """Why the trace could not be written on; empty if it can."""
        self.dropped: Counter[str] = Counter()
        """Messages for which there was no room, by topic."""
        self.dropped_count = 0
        self._writer = writer
        self._max_backlog_bytes, self._flush_period_s = max_backlog_bytes, flush_period_s
        self._waiting: deque[Callable[[], None] | tuple[str, bytes, int, int, int]] = deque()
        # Only one thread changes each of them, so neither needs a lock.
        self._taken_bytes = self._done_bytes = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name='recording', daemon=True)
        self._thread.start()

    @property
    def folder(self) -> Path:
        """Where the trace is."""
        return self._writer.folder

    @property
    def ended(self) -> bool:
        """Whether the trace was ended."""
        return self._ending.is_set()

    @property
    def backlog_bytes(self) -> int:
        """Size of what waits to be written."""
        return self._taken_bytes - self._done_bytes

    def counts(self, lost: Counter[str]) -> RecorderCounts:
        """Return what was recorded so far and what was not; the middleware lost ``lost``."""
        return RecorderCounts(
            folder=str(self.folder),
            messages=self._writer.message_count,
            topics=self._writer.topic_count,
            files=self._writer.file_count,
            backlog_bytes=self.backlog_bytes,
            dropped=self.dropped,
            lost=lost,
            failure=self.failure,
        )

    def add_topic(self, name: str, message_type: str, qos: TopicQos) -> None:
        """Add a topic; its messages may come at once.

        Raises:
            TraceError: The type's definition cannot be found.
        """
        find_definition(message_type)
        self._waiting.append(lambda: self._writer.add_topic(name, message_type, qos))

    def note(self, values: Mapping[str, str]) -> None:
        """Add notes on the run, or change them."""
        self._waiting.append(lambda: self._writer.note(values))

    def take(
        self, topic: str, data: bytes, *, log_ns: int, publish_ns: int, sequence: int = 0
    ) -> None:
        """Take a message of a topic that was added; drop and count it if there is no room."""
        size = len(data) + MESSAGE_BYTES
        if self.failure or self.backlog_bytes + size > self._max_backlog_bytes:
            self.dropped[topic] += 1
            self.dropped_count += 1
            return
        self._taken_bytes += size
        self._waiting.append((topic, data, log_ns, publish_ns, sequence))

    def close(self) -> None:
        """Write what waits and end the trace; one that cannot be written on stays as it is."""
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
            full = err.errno in (errno.ENOSPC, errno.EDQUOT)
            self._fail(err.strerror or str(err), 'the disk was full' if full else '')
        except Exception as err:  # noqa: BLE001 - the recorder must report whatever it is
            self._fail(repr(err))

    def _fail(self, why: str, ending: str = '') -> None:
        self._writer.give_up(ending or f'its recorder failed: {why}')
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
