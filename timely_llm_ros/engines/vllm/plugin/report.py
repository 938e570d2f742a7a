"""The events of a scheduler inside vLLM's engine core, on their way to the engine that started it.

Frames as between the torch engine and its worker, over a socket in a folder that only this user
may enter. The other way come corrections of when robots are idle: there is one for every segment,
and the next choice is early enough for them, so they need neither an answer nor a wake-up, which
vLLM's own control channel has for everything. The socket also ties the two lives together: when
the engine's process is gone, by whatever hand, the engine core ends itself, and when the engine
core is gone, the engine sees it at once.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.torch import FrameReader, frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Report:
    """The engine core's end.

    Args:
        path: The engine's socket.
    """

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._heard: deque[Any] = deque()
        threading.Thread(target=self._watch, name='timely report', daemon=True).start()

    def send(self, messages: Sequence[Any]) -> None:
        """Send messages as one frame."""
        self._socket.sendall(frame(list(messages)))

    def heard(self) -> Iterator[Any]:
        """Yield what came from the engine since the last call."""
        while self._heard:
            yield self._heard.popleft()

    def _watch(self) -> None:
        """Listen, and end this process when the other end is closed."""
        frames = FrameReader()
        try:
            while data := self._socket.recv(1 << 16):
                self._heard.extend(frames.push(data))
        except OSError:
            pass
        os._exit(0)
