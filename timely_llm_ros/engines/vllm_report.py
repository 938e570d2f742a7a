"""The events of a scheduler inside vLLM's engine core, on their way to the engine that started it.

Frames as between the torch engine and its worker, over a socket in a folder that only this user
may enter. It also ties the two lives together: when the engine's process is gone, by whatever
hand, the engine core ends itself, and when the engine core is gone, the engine sees it at once.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.wire import frame

if TYPE_CHECKING:
    from collections.abc import Sequence


class Report:
    """The engine core's end.

    Args:
        path: The engine's socket.
    """

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        threading.Thread(target=self._watch, name='timely report', daemon=True).start()

    def send(self, messages: Sequence[Any]) -> None:
        """Send messages as one frame."""
        self._socket.sendall(frame(list(messages)))

    def _watch(self) -> None:
        """End this process when the other end is closed; nothing else ever comes from there."""
        try:
            while self._socket.recv(64):
                pass
        except OSError:
            pass
        os._exit(0)
