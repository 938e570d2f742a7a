"""A tokenizer for llguidance: the 256 bytes, an end, and pieces that cross statement ends."""

from __future__ import annotations

from typing import Any

END = 256
TOKENS = (
    *(bytes([byte]) for byte in range(256)),
    b'\xff<end>',
    *(b';land', b'){', b'};', b';}else{', b'(cat_3', b'cup_1', b'true ', b'#true ', b';#'),
    *(b';is_', b'0);', b'else'),
)


class ByteTokenizer:
    eos_token_id = END
    bos_token_id = None
    tokens = TOKENS
    special_token_ids = (END,)

    def __call__(self, text: str | bytes) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


def allowed_tokens(matcher: Any) -> list[int]:
    mask = int.from_bytes(matcher.compute_bitmask(), 'little')
    return [token for token in range(len(TOKENS)) if mask >> token & 1]
