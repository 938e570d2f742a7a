"""Planner events as lines of text, so that two runs can be compared byte by byte."""

from __future__ import annotations

import hashlib
from operator import attrgetter
from typing import TYPE_CHECKING

from timely_llm_ros.planner import (
    CallStarted,
    PhaseChanged,
    SegmentEnded,
    SegmentReady,
    SegmentStarted,
    TaskAccepted,
    TaskEnded,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from timely_llm_ros.planner import PlannerEvent

_OUTCOME = (
    'index',
    'ending.code',
    'ending.message',
    'calls',
    'call_durations_s',
    'execution_s',
    'value',
)
_RESULT = (
    'ending.code',
    'ending.message',
    'utility',
    'tokens',
    'segments',
    'waits_s',
    'execution_s',
)
_FIELDS: dict[type[PlannerEvent], tuple[str, ...]] = {
    TaskAccepted: ('task.task_kind', 'task.instruction'),
    PhaseChanged: ('phase.name',),
    SegmentReady: (
        'segment.index',
        'segment.text',
        'segment.tokens',
        'token_at_s',
        'generation_s',
        'expected_execution_s',
        'kv_tokens',
    ),
    SegmentStarted: ('index', 'waiting_s'),
    CallStarted: ('index', 'call', 'remaining_s'),
    SegmentEnded: tuple(f'outcome.{name}' for name in _OUTCOME),
    TaskEnded: tuple(f'result.{name}' for name in _RESULT),
}
_VALUES: dict[type[PlannerEvent], Callable[[PlannerEvent], object]] = {
    kind: attrgetter('at_s', 'robot', 'task_id', *names) for kind, names in _FIELDS.items()
}


def event_line(event: PlannerEvent) -> str:
    """Return an event as one line: its kind, then its values, every number exactly."""
    kind = type(event)
    return f'{kind.__name__} {_VALUES[kind](event)!r}\n'


class EventLog:
    """Takes planner events; keeps the hash of their lines, and the lines where it has a file.

    Args:
        file: Where the lines go; None to keep only their number, size and hash.
    """

    def __init__(self, file: BinaryIO | None = None) -> None:
        self.lines = 0
        self.bytes = 0
        self._hash = hashlib.sha256()
        self._file = file

    def add(self, event: PlannerEvent) -> None:
        """Append one event."""
        line = event_line(event).encode()
        self.lines += 1
        self.bytes += len(line)
        self._hash.update(line)
        if self._file is not None:
            self._file.write(line)

    @property
    def sha256(self) -> str:
        """Hash of everything so far, in hexadecimal."""
        return self._hash.hexdigest()
