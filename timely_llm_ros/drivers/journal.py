"""Writes down as JSON lines what a simulated or mock robot is told and does."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO


class Journal:
    """Appends events to a file and flushes each; without a path it drops them. Thread-safe.

    Raises:
        OSError: The file cannot be written.
    """

    def __init__(self, path: str | Path = '') -> None:
        self._file: TextIO | None = None
        if str(path):
            self._file = Path(path).open('a', encoding='utf-8')  # noqa: SIM115 (open until close)
        self._lock = threading.Lock()

    def note(self, event: Mapping[str, object]) -> None:
        """Append one event."""
        with self._lock:
            if self._file is not None:
                self._file.write(json.dumps(event) + '\n')
                self._file.flush()

    def close(self) -> None:
        """Close the file; later events are dropped. Idempotent."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None


def read_journal(path: str | Path) -> list[dict[str, Any]]:
    """Return the events of a journal so far, the oldest first; none if there is no file."""
    file = Path(path)
    text = file.read_text(encoding='utf-8') if file.exists() else ''
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith('\n')]
