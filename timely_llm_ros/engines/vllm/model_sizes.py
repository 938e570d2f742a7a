"""Sizes of a model from the files in its folder: parameters, longest context, bytes of KV."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any


def count_parameters(path: str) -> int:
    """Return how many numbers the safetensors files in a model's folder have."""
    total = 0
    for file in sorted(Path(path).glob('*.safetensors')):
        with file.open('rb') as stream:
            header = json.loads(stream.read(int.from_bytes(stream.read(8), 'little')))
        header.pop('__metadata__', None)
        total += sum(math.prod(entry['shape']) for entry in header.values())
    return total


def longest_context(path: str) -> int:
    """Return how many tokens a context of a model may have."""
    return int(_config(path).get('max_position_embeddings') or 1 << 30)


def kv_bytes(path: str, tokens: int, dtype: str) -> int:
    """Return what the KV of so many tokens takes, a little more and at least 64 MiB (bytes)."""
    config = _config(path)
    heads = config['num_attention_heads']
    width = config.get('head_dim') or config['hidden_size'] // heads
    numbers = 2 * config['num_hidden_layers'] * (config.get('num_key_value_heads') or heads) * width
    size = 4 if dtype == 'float32' else 2
    return max(64 << 20, int(1.05 * numbers * size * tokens))


def _config(path: str) -> dict[str, Any]:
    loaded = json.loads((Path(path) / 'config.json').read_text(encoding='utf-8'))
    config: dict[str, Any] = loaded.get('text_config', loaded)
    return config
