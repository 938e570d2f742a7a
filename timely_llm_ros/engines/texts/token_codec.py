"""Text to token ids, and token ids to bytes, of one tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


class TokenCodec:
    """Encodes text in which special tokens are text like any other, and decodes single tokens.

    Args:
        encoder: A tokenizer of the ``tokenizers`` package; it is set up for this.
        decoder: The same one for llguidance, which knows each token's bytes.
        end_ids: Tokens that end a text.
    """

    def __init__(self, encoder: Any, decoder: Any, end_ids: Iterable[int]) -> None:
        self._encoder = encoder
        self._decoder = decoder
        self.end_ids = frozenset(end_ids)
        self._bytes: dict[int, bytes] = {}
        encoder.no_padding()
        encoder.no_truncation()
        encoder.encode_special_tokens = True

    def encode(self, text: str, *, beginning: bool = False) -> list[int]:
        """Return the ids of ``text``; only a ``beginning`` gets the tokenizer's special tokens."""
        ids: list[int] = self._encoder.encode(text, add_special_tokens=beginning).ids
        while beginning and ids and ids[-1] in self.end_ids:
            ids.pop()
        return ids

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes that a token stands for."""
        known = self._bytes.get(token)
        if known is None:
            known = self._bytes[token] = bytes(self._decoder.decode_bytes([token]))
        return known
