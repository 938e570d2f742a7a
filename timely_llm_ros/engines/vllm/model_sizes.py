"""Sizes of a model that vLLM runs, from its folder: parameters, longest context, bytes of KV."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def count_parameters(path: str) -> int:
    """Return how many numbers the safetensors files of a model have; 0 where there are none."""
    total = 0
    for file in sorted(Path(path).glob('*.safetensors')):
        with file.open('rb') as stream:
            header = json.loads(stream.read(int.from_bytes(stream.read(8), 'little')))
        for name, entry in header.items():
            if name != '__metadata__':
                size = 1
                for length in entry['shape']:
                    size *= length
                total += size
    return total


def context_limit(path: str) -> int:
    """Return how many tokens a context of a model may have."""
    config = _read(path, 'config.json')
    return int(config.get('text_config', config).get('max_position_embeddings') or 1 << 30)


def kv_bytes(path: str, tokens: int, dtype: str) -> int:
    """Return what the KV of so many tokens takes, a little more and at least 64 MiB (bytes)."""
    config = _read(path, 'config.json')
    config = config.get('text_config', config)
    heads = config['num_attention_heads']
    width = config.get('head_dim') or config['hidden_size'] // heads
    numbers = 2 * config['num_hidden_layers'] * (config.get('num_key_value_heads') or heads) * width
    size = 4 if dtype == 'float32' else 2
    return max(64 << 20, int(1.05 * numbers * size * tokens))


def _read(path: str, name: str) -> dict[str, Any]:
    with (Path(path) / name).open(encoding='utf-8') as file:
        loaded: dict[str, Any] = json.load(file)
    return loaded
