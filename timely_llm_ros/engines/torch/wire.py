"""What goes between an engine and its worker process: commands there, events back.

Both are frames of a length and a pickled list. The engine starts the worker and connects it by a
socket pair that nobody else has.
"""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timely_llm_ros.engines.engine import EngineInfo

_HEADER = struct.Struct('<Q')


@dataclass(frozen=True, slots=True)
class Stop:
    """End the worker."""


@dataclass(frozen=True, slots=True)
class WorkerBusy:
    """What the worker does before it is ready."""

    doing: str


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """The model is loaded."""

    info: EngineInfo


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """The worker ends because of this error; ``loading`` if the model could not be loaded."""

    error: str
    loading: bool


def frame(messages: list[Any]) -> bytes:
    """Return messages as one frame."""
    data = pickle.dumps(messages, protocol=pickle.HIGHEST_PROTOCOL)
    return _HEADER.pack(len(data)) + data


class FrameReader:
    """Puts frames together from pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def push(self, data: bytes) -> Iterator[Any]:
        """Take a piece and yield the messages that it completes."""
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            (length,) = _HEADER.unpack_from(self._buffer)
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            messages = pickle.loads(memoryview(self._buffer)[_HEADER.size : end])  # noqa: S301 -- of our own process
            del self._buffer[:end]
            yield from messages
