"""Encodes text as token ids and decodes token ids to bytes."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from timely_llm_ros.engines.tokens import read_as_text
from timely_llm_ros.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from timely_llm_ros.skills import Prompt

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
        read_as_text(encoder)

    def fixed_ids(self, prompt: Prompt) -> list[int]:
        """Return the tokens of a prompt's fixed part."""
        if prompt.special is None:
            return self.encode(prompt.fixed, beginning=True)
        return self._encode_pieces(prompt.fixed_pieces)

    def body_ids(self, prompt: Prompt, *, beginning: bool) -> list[int]:
        """Return the tokens of a prompt's body; ``beginning`` where its fixed part has none.

        Raises:
            EngineError: The body has none, though a model needs one to continue from.
        """
        if prompt.special is None:
            ids = self.encode(prompt.body, beginning=beginning)
        else:
            ids = self._encode_pieces(prompt.body_pieces)
        if not ids:
            raise EngineError(f'prompt body {prompt.body!r}: expected at least one token')
        return ids

    def _encode_pieces(self, pieces: Iterable[tuple[str, bool]]) -> list[int]:
        ids: list[int] = []
        for text, special in pieces:
            token = self._encoder.token_to_id(text) if special else None
            ids += self.encode(text) if token is None else [token]
        return ids

    def encode(self, text: str, *, beginning: bool = False) -> list[int]:
        """Return the ids of ``text``; only a ``beginning`` gets the tokenizer's special tokens."""
        ids: list[int] = self._encoder.encode(text, add_special_tokens=beginning).ids
        while beginning and ids and ids[-1] in self.end_ids:
            ids.pop()
        return ids

    def token(self, text: str) -> int | None:
        """Return the token that stands for a text, special ones included; None for none."""
        found: int | None = self._encoder.token_to_id(text)
        return found

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes that a token stands for."""
        known = self._bytes.get(token)
        if known is None:
            known = self._bytes[token] = bytes(self._decoder.decode_bytes([token]))
        return known

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens; bytes that are no text become replacement characters."""
        return b''.join(map(self.bytes_of, tokens)).decode('utf-8', 'replace')

    @functools.cached_property
    def quoting(self) -> NDArray[np.bool_]:
        """Which tokens hold a quote."""
        return np.array([b'"' in self.bytes_of(token) for token in range(self.size)])

    @functools.cached_property
    def lengths(self) -> NDArray[np.int64]:
        """How many bytes each token stands for."""
        return np.array([len(self.bytes_of(token)) for token in range(self.size)])

    def tokens_with(self, mark: bytes) -> tuple[int, ...]:
        """Return the tokens whose bytes hold ``mark``."""
        return tuple(token for token in range(self.size) if mark in self.bytes_of(token))
