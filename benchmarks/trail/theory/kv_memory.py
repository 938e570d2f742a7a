"""How much memory keys and values take."""

from __future__ import annotations


def kv_bytes(
    layers: int, kv_heads: int, head_width: int, tokens: int, *, element_bytes: int = 2
) -> int:
    """Return the memory (bytes) of the keys and values of ``tokens``."""
    return layers * 2 * kv_heads * head_width * element_bytes * tokens
