"""Special tokens: marks of a model that no text may become by chance or intent."""

from __future__ import annotations

from typing import Any


def read_as_text(encoder: Any) -> None:
    """Let a tokenizer read the text of each token that was added to it as text like any other.

    Its own switch concerns only those called special, and templates use others as marks as well.
    """
    from tokenizers import AddedToken

    encoder.encode_special_tokens = True
    for token in encoder.get_added_tokens_decoder().values():
        if not token.special and not token.content.isspace():
            same = AddedToken(token.content, normalized=token.normalized, special=True)
            encoder.add_special_tokens([same])
