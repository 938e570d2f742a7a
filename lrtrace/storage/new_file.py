"""Files that are there whole or not at all, and never in place of another without being told."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from timely_llm_ros.errors import ConfigurationError


def require_new(path: str | Path, *, force: bool) -> None:
    """Refuse a path at which something is, unless told to replace it.

    Raises:
        ConfigurationError: Something is there and ``force`` is not set, or it is a folder.
    """
    if Path(path).is_dir():
        raise ConfigurationError(f'output {str(path)!r}: is a folder: expected a file')
    if os.path.lexists(path) and not force:
        raise ConfigurationError(f'output {str(path)!r}: exists: expected a new file, or --force')


def write_new(path: str | Path, text: str, *, force: bool) -> None:
    """Write a file.

    Args:
        path: Where.
        text: What.
        force: Whether to replace a file that is there.

    Raises:
        ConfigurationError: It is there and ``force`` is not set, or it cannot be written.
    """
    require_new(path, force=force)
    path = Path(path)
    draft = path.with_name(f'.{path.name}.{os.getpid()}')
    try:
        draft.write_text(text, encoding='utf-8')
        draft.replace(path)
    except OSError as err:
        raise ConfigurationError(
            f'output {str(path)!r}: cannot be written: {err.strerror}'
        ) from err
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
