"""What happens to a mock robot, written down as JSON lines."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TextIO


class Journal:
    """Appends events to a file, each flushed; to nothing for an empty path.

    Raises:
        OSError: The file cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self._file: TextIO | None = (
            open(path, 'a', encoding='utf-8') if str(path) else None  # noqa: SIM115
        )
        self._lock = threading.Lock()

    def note(self, event: dict[str, object]) -> None:
        """Append one event."""
        if self._file is not None:
            with self._lock:
                self._file.write(json.dumps(event) + '\n')
                self._file.flush()


def read_journal(path: str | Path) -> list[dict[str, Any]]:
    """Return the events of a journal so far, the oldest first; none where there is no file."""
    file = Path(path)
    text = file.read_text(encoding='utf-8') if file.exists() else ''
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith('\n')]
