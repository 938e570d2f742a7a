"""Writes the trained network as a Hugging Face folder that Llama implementations load."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file

from timely_llm_ros.training.model.tokenizer import EOS_ID, PAD_ID, write_tokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from timely_llm_ros.training.model.network import NetworkShape, PlannerNetwork

CARD = """---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
tags: [robotics, planning]
---
# {name}

A small language model of timely_llm_ros that plans for robots: from a skill set, a scene and an
instruction it writes a plan in that package's plan language. It knows the skill sets `tello` and
`arm` and their words, and is no chat model.

| | |
|---|---|
| architecture | Llama with attention biases: {layers} layers, width {width}, {heads} heads, \
{kv_heads} KV heads, FFN {ffn}, tied embeddings |
| size | {parameters:.1f} M parameters, bfloat16 |
| context | {context:,} tokens |
| data | tasks and right plans that `timely_llm_ros.sample_tasks` draws; held-out words and scenes \
are not among them |
| training | from random weights, by `make model`: `training.json` |

Its accuracy, its limits and what it was trained on: `docs/model_card.md` of timely_llm_ros.
"""
"""The model card of Hugging Face."""

_MATRICES = {
    'q': 'self_attn.q_proj.weight',
    'k': 'self_attn.k_proj.weight',
    'v': 'self_attn.v_proj.weight',
    'o': 'self_attn.o_proj.weight',
    'q_bias': 'self_attn.q_proj.bias',
    'k_bias': 'self_attn.k_proj.bias',
    'v_bias': 'self_attn.v_proj.bias',
    'o_bias': 'self_attn.o_proj.bias',
    'gate': 'mlp.gate_proj.weight',
    'up': 'mlp.up_proj.weight',
    'down': 'mlp.down_proj.weight',
    'attention_norm': 'input_layernorm.weight',
    'mlp_norm': 'post_attention_layernorm.weight',
}
"""Stacked parameter -> transformers' name within ``model.layers.<i>``."""


def hugging_face_weights(network: PlannerNetwork) -> dict[str, Tensor]:
    """Return the weights in bfloat16 under transformers' names; the head is tied."""
    weights: dict[str, Tensor] = {
        'model.embed_tokens.weight': network.embedding,
        'model.norm.weight': network.final_norm,
    }
    for ours, theirs in _MATRICES.items():
        stack: Tensor = getattr(network, ours)
        for layer in range(stack.shape[0]):
            weights[f'model.layers.{layer}.{theirs}'] = stack[layer]
    return {
        name: value.detach().to(torch.bfloat16).contiguous().clone()
        for name, value in weights.items()
    }


def llama_config(shape: NetworkShape) -> dict[str, Any]:
    """Return the content of ``config.json``."""
    return {
        'architectures': ['LlamaForCausalLM'],
        'model_type': 'llama',
        'attention_bias': True,
        'attention_dropout': 0.0,
        'bos_token_id': None,
        'eos_token_id': EOS_ID,
        'pad_token_id': PAD_ID,
        'head_dim': shape.head_dim,
        'hidden_act': 'silu',
        'initializer_range': 0.02,
        'mlp_bias': False,
        'rope_scaling': None,
        'tie_word_embeddings': True,
        'torch_dtype': 'bfloat16',
        'use_cache': True,
        **asdict(shape),
    }


def model_card(name: str, shape: NetworkShape, parameters: int) -> str:
    """Return the content of ``README.md``."""
    return CARD.format(
        name=name,
        layers=shape.num_hidden_layers,
        width=shape.hidden_size,
        heads=shape.num_attention_heads,
        kv_heads=shape.num_key_value_heads,
        ffn=shape.intermediate_size,
        parameters=parameters / 1e6,
        context=shape.max_position_embeddings,
    )


def export(network: PlannerNetwork, folder: Path, training: Mapping[str, Any]) -> None:
    """Write the model folder; an existing one is replaced only when the new one is whole.

    ``training.json`` gets ``training``, which says how the network came about.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f'.{folder.name}-', dir=folder.parent))
    try:
        weights = hugging_face_weights(network)
        save_file(weights, fresh / 'model.safetensors', metadata={'format': 'pt'})
        _write_json(fresh / 'config.json', llama_config(network.shape))
        generation = {'do_sample': False, 'eos_token_id': EOS_ID, 'pad_token_id': PAD_ID}
        _write_json(fresh / 'generation_config.json', generation)
        _write_json(fresh / 'training.json', training)
        parameters = sum(it.numel() for it in weights.values())
        card = model_card(folder.name, network.shape, parameters)
        (fresh / 'README.md').write_text(card, encoding='utf-8')
        write_tokenizer(fresh, max_length=network.shape.max_position_embeddings)
        fresh.chmod(0o755)
        for path in fresh.iterdir():
            path.chmod(0o644)
        if folder.exists():
            old = Path(tempfile.mkdtemp(prefix=f'.{folder.name}-', dir=folder.parent))
            folder.rename(old / folder.name)
            fresh.rename(folder)
            shutil.rmtree(old)
        else:
            fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + '\n', encoding='utf-8')
