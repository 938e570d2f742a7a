"""The tokenizer of a model that vLLM runs, for both sides of the process border."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from timely_llm_ros.engines.texts import TokenTexts
from timely_llm_ros.engines.tokens import require_model_files
from timely_llm_ros.errors import ModelLoadError


def load_texts(path: str) -> TokenTexts:
    """Load a model's tokenizer, without its weights.

    Raises:
        ModelLoadError: The folder is no model's, or has no token that ends a plan.
    """
    require_model_files(path)
    os.environ.setdefault('HF_HUB_OFFLINE', '1')
    import transformers

    transformers.utils.logging.set_verbosity_error()
    try:
        config = _read(path, 'config.json')
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(
            path, local_files_only=True
        )
        vocabulary = int(config.get('text_config', config)['vocab_size'])
    except Exception as err:
        # Whatever is raised for a broken folder, the folder is what is wrong.
        raise ModelLoadError(f'model {path!r}: {type(err).__name__}: {err}') from err
    return TokenTexts(tokenizer, vocabulary, _end_ids(path, config, tokenizer), path)


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
    size = 4 if dtype in ('auto', 'float32') else 2
    return max(64 << 20, int(1.05 * numbers * size * tokens))


def _end_ids(path: str, config: dict[str, Any], tokenizer: Any) -> list[int]:
    """Return the tokens that end a text, from the generation settings, config and tokenizer."""
    found: dict[int, None] = {}
    settings = Path(path) / 'generation_config.json'
    sources = [_read(path, settings.name)] if settings.is_file() else []
    for source in (*sources, config, {'eos_token_id': tokenizer.eos_token_id}):
        value = source.get('eos_token_id')
        for token in value if isinstance(value, list) else [value]:
            if token is not None:
                found[int(token)] = None
    if not found:
        raise ModelLoadError(f'model {path!r}: no eos_token_id; expected a token that ends a plan')
    return list(found)


def _read(path: str, name: str) -> dict[str, Any]:
    with (Path(path) / name).open(encoding='utf-8') as file:
        loaded: dict[str, Any] = json.load(file)
    return loaded
