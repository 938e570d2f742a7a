"""Decodes the bytes of tokens as they come."""

from __future__ import annotations

import codecs


class TextStream:
    """Decodes bytes to text and holds back a character that is not complete."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder('utf-8')(errors='replace')

    @property
    def incomplete(self) -> bool:
        """Whether a character is held back."""
        return bool(self._decoder.getstate()[0])

    def push(self, data: bytes) -> str:
        """Return the text that ``data`` completes."""
        return self._decoder.decode(data)
