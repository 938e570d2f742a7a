"""Appends to an audit log."""

from __future__ import annotations

import datetime
import fcntl
import hashlib
import logging
import os
from pathlib import Path
from typing import Any

from timely_llm_ros.audit.lines import MOST_BYTES, Link, read_line, write_line
from timely_llm_ros.errors import ConfigurationError

_logger = logging.getLogger(__name__)


class AuditLog:
    """One file, which nobody else writes meanwhile. Used from one thread, but for ``sync``.

    A line is in the kernel's hands when :meth:`note` returns, so it outlives this process; a
    machine that loses its power may lose what came after the last :meth:`sync`. A line that was
    torn off, as when the disk was full, stays as it is: the line after it says so.

    Args:
        path: The file; lines are appended to what is there.

    Raises:
        ConfigurationError: The file cannot be written, another process writes it, or its last line
            was changed.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        self.trouble = ''
        """Why the last line could not be written; empty where it was."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            self._file = os.open(self.path, flags, 0o640)
        except OSError as err:
            raise ConfigurationError(
                f'audit log {str(path)!r}: expected a file to append to: {err.strerror}'
            ) from err
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._last = self._begin()
        except (OSError, ConfigurationError) as err:
            os.close(self._file)
            if isinstance(err, BlockingIOError):
                raise ConfigurationError(
                    f'audit log {str(path)!r}: another process writes it: expected one of its own'
                ) from err
            raise
        self._closed = False

    def note(self, what: str, **values: Any) -> None:
        """Append a line; where that cannot be done, :attr:`trouble` and the program's log say so.

        Args:
            what: What happened, in a word.
            values: What there is to say of it, as JSON has it.
        """
        if self._closed:
            return
        try:
            self._last = self._write(self._last, {'at': _now(), 'what': what, **values})
        except (OSError, ValueError) as err:
            if not self.trouble:
                _logger.exception('audit log %s', self.path)
            self.trouble = f'audit log {str(self.path)!r}: {err}'
        else:
            self.trouble = ''

    def sync(self) -> None:
        """Wait until the disk has everything; may be called on another thread."""
        if not self._closed:
            os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file; idempotent. Nothing can be noted any more."""
        if not self._closed:
            self.sync()
            self._closed = True
            os.close(self._file)

    def _write(self, after: Link, record: dict[str, Any], before: bytes = b'') -> Link:
        """Append a line, all of it or nothing."""
        line, link = write_line(after, record)
        size = os.fstat(self._file).st_size
        written = os.write(self._file, before + line)
        if written < len(before) + len(line):
            os.ftruncate(self._file, size)
            raise OSError(f'{written} of {len(line)} bytes written: expected room on the disk')
        return link

    def _begin(self) -> Link:
        """Go on after the last whole line, and say so where one was torn off behind it."""
        size = os.fstat(self._file).st_size
        most = 2 * MOST_BYTES
        whole, _, torn = os.pread(self._file, most, max(0, size - most)).rpartition(b'\n')
        try:
            last = read_line(whole.rpartition(b'\n')[2])[1] if whole else Link()
        except ValueError as err:
            raise ConfigurationError(
                f'audit log {str(self.path)!r}: its last line: {err}; `timely-llm audit verify` '
                'says more: expected a log that nobody has changed, or another file'
            ) from err
        if not torn:
            return last
        try:
            last = read_line(torn)[1]
        except ValueError:
            pass
        else:
            # Only its line end is missing.
            os.write(self._file, b'\n')
            return last
        digest = hashlib.sha256(torn).hexdigest()
        record = {'at': _now(), 'what': 'torn', 'bytes': len(torn), 'sha256': digest}
        return self._write(last, record, before=b'\n')


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec='microseconds')
