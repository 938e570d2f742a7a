"""Brings events from the scheduler inside vLLM's engine core to the engine that started it.

They travel in frames, as between the torch engine and its worker, over a socket in a folder that
only this user may enter. Corrections of when robots are idle come the other way: there is one for
every segment, and it needs neither the answer nor the wake-up of vLLM's own control channel. Either
process also notices by the socket that the other is gone. The engine core then ends itself.
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
    """The engine core's end of the engine's socket at ``path``."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._heard: deque[Any] = deque()
        threading.Thread(target=self._watch, name='timely report', daemon=True).start()

    def send(self, messages: Sequence[Any]) -> None:
        """Send messages as one frame."""
        self._socket.sendall(frame(list(messages)))

    def heard(self) -> Iterator[Any]:
        """Yield the engine's messages since the last call."""
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
