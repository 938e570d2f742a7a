"""Random tiny models in the formats that the torch engine loads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

EOS_ID = 256


def byte_tokenizer(*merged: tuple[str, str]) -> dict[str, object]:
    """A ``tokenizer.json`` with one token per byte, an end, and then the merged tokens."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {byte: chr(byte) for byte in kept}
    for position, byte in enumerate(byte for byte in range(256) if byte not in table):
        table[byte] = chr(256 + position)
    byte_level = {
        'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': False, 'use_regex': False,
    }  # fmt: skip
    end = {
        'id': EOS_ID, 'content': '<eos>', 'single_word': False, 'lstrip': False, 'rstrip': False,
        'normalized': False, 'special': True,
    }  # fmt: skip
    return {
        'version': '1.0',
        'truncation': None,
        'padding': None,
        'added_tokens': [end],
        'normalizer': None,
        'pre_tokenizer': byte_level,
        'post_processor': None,
        'decoder': byte_level,
        'model': {
            'type': 'BPE', 'dropout': None, 'unk_token': None, 'continuing_subword_prefix': None,
            'end_of_word_suffix': None, 'fuse_unk': False, 'byte_fallback': False,
            'vocab': {table[byte]: byte for byte in range(256)}
            | {'<eos>': EOS_ID}
            | {a + b: EOS_ID + 1 + number for number, (a, b) in enumerate(merged)},
            'merges': [list(pair) for pair in merged],
        },
    }  # fmt: skip


def write_model(
    folder: Path,
    family: str = 'llama',
    *,
    seed: int = 0,
    vocabulary: int = EOS_ID + 1,
    hidden_size: int = 64,
) -> Path:
    """Write a chaotic model: weights so large that texts do not fall into loops."""
    import torch
    import transformers

    common = {
        'vocab_size': vocabulary,
        'hidden_size': hidden_size,
        'intermediate_size': 128,
        'num_hidden_layers': 2,
        'num_attention_heads': 4,
        'num_key_value_heads': 2,
        'max_position_embeddings': 4096,
        'initializer_range': 0.3,
        'eos_token_id': EOS_ID,
        'bos_token_id': None,
        'pad_token_id': None,
    }
    configs = {
        'llama': lambda: transformers.LlamaConfig(**common),
        'qwen2': lambda: transformers.Qwen2Config(**common, tie_word_embeddings=True),
        'qwen3': lambda: transformers.Qwen3Config(**common, head_dim=16),
        'mistral': lambda: transformers.MistralConfig(**common, sliding_window=9),
        'phi': lambda: transformers.PhiConfig(**common, partial_rotary_factor=0.5),
        'phi3': lambda: transformers.Phi3Config(**common),
        'gpt2': lambda: transformers.GPT2Config(
            vocab_size=vocabulary, n_embd=64, n_layer=2, n_head=4, eos_token_id=EOS_ID,
            initializer_range=0.3,
        ),
    }  # fmt: skip
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(configs[family]())
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    (folder / 'tokenizer.json').write_text(json.dumps(byte_tokenizer()))
    (folder / 'tokenizer_config.json').write_text(
        json.dumps({'tokenizer_class': 'PreTrainedTokenizerFast', 'eos_token': '<eos>'})
    )
    return folder


def write_adapter(
    base: Path, folder: Path, *, seed: int, rank: int, targets: Sequence[str] = ()
) -> Path:
    """Write an adapter of a chaotic model, as chaotic, for all matrices of its layers or some."""
    import peft
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    torch.manual_seed(seed)
    config = peft.LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules=list(targets) or 'all-linear',
        init_lora_weights=False,
        task_type='CAUSAL_LM',
    )
    adapted = peft.get_peft_model(model, config)
    adapted.peft_config['default'].base_model_name_or_path = str(base)
    adapted.save_pretrained(str(folder))
    for name in ('config.json', 'tokenizer.json', 'tokenizer_config.json'):
        (folder / name).write_text((base / name).read_text())
    return folder
