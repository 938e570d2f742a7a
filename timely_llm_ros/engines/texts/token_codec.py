"""Encodes text as token ids and decodes token ids to bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


NO_FORCING = '%llguidance {"no_forcing": true}\n'
"""Begins a grammar. Without it llguidance would allow only a text's usual tokens where the text is
certain, and which tokens are usual depends on where the text begins."""


class TokenCodec:
    """Encodes text and decodes single tokens.

    The text of a special token is text like any other, so that no instruction can end a prompt.

    Args:
        encoder: A tokenizer of the ``tokenizers`` package, which is set up for this.
        decoder: llguidance's form of the same tokenizer, which knows each token's bytes.
        size: Token ids are below this.
        end_ids: Tokens that end a text.
    """

    def __init__(self, encoder: Any, decoder: Any, size: int, end_ids: Iterable[int]) -> None:
        self._encoder = encoder
        self._decoder = decoder
        self.size = size
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

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens; bytes that are no text become replacement characters."""
        return b''.join(map(self.bytes_of, tokens)).decode('utf-8', 'replace')

    def tokens_with(self, mark: bytes) -> tuple[int, ...]:
        """Return the tokens whose bytes hold ``mark``."""
        return tuple(token for token in range(self.size) if mark in self.bytes_of(token))
