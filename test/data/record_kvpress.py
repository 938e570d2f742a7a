"""Writes kvpress_selections.json: what kvpress keeps of random keys and queries.

kvpress needs an older transformers, so it runs in an environment of its own::

    python3 -m venv kvp && kvp/bin/pip install kvpress==0.5.5 numpy
    kvp/bin/python test/data/record_kvpress.py > test/data/kvpress_selections.json

Keys and queries come from ``numpy.random.default_rng(seed).standard_normal``, keys first, as
float32. The press computes its own attention: it is given a layer whose query projection is the
identity, and rotations of zero. What is recorded is sorted, because the order in which keys are
stored does not matter to attention.
"""

from __future__ import annotations

import importlib
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

SHAPE = ('seed', 'tokens', 'kv_heads', 'group', 'width')
CASES = (
    (0, 40, 2, 3, 32, 16, 5, 0.5),
    (1, 64, 2, 2, 16, 8, 5, 0.25),
    (2, 100, 1, 4, 8, 16, 7, 0.75),
    (3, 128, 4, 1, 16, 32, 3, 0.6),
    (4, 33, 2, 3, 32, 4, 1, 0.8),
    (5, 200, 2, 3, 32, 16, 5, 0.9),
)


def main() -> None:
    """Print the file."""
    kvpress: Any = importlib.import_module('kvpress')
    llama: Any = importlib.import_module('transformers.models.llama.modeling_llama')
    config: Any = importlib.import_module('transformers').LlamaConfig
    found: dict[str, list[dict[str, Any]]] = {'snapkv': [], 'knorm': []}
    for seed, tokens, kv_heads, group, width, window, kernel, ratio in CASES:
        rng = np.random.default_rng(seed)
        keys = rng.standard_normal((tokens, kv_heads, width)).astype(np.float32)
        queries = rng.standard_normal((tokens, kv_heads * group, width)).astype(np.float32)
        size = kv_heads * group * width
        layer = llama.LlamaAttention(
            config(
                hidden_size=size,
                num_attention_heads=kv_heads * group,
                num_key_value_heads=kv_heads,
                head_dim=width,
            ),
            0,
        )
        layer.q_proj = torch.nn.Identity()
        hidden = torch.tensor(queries).reshape(1, tokens, size)
        own = torch.tensor(keys).transpose(0, 1)[None]
        no_turn = torch.ones(1, tokens, width), torch.zeros(1, tokens, width)
        # The positions travel through compress() as the values.
        positions = torch.arange(float(tokens))[None, None, :, None].expand(1, kv_heads, -1, width)
        presses = {
            'snapkv': kvpress.SnapKVPress(ratio, window_size=window, kernel_size=kernel),
            'knorm': kvpress.KnormPress(ratio),
        }
        for name, press in presses.items():
            with torch.no_grad():
                _, kept = press.compress(
                    layer, hidden, own, positions, None, {'position_embeddings': no_turn}
                )
            selected = kept[0, :, :, 0].sort(dim=-1).values.int().tolist()
            case = dict(zip(SHAPE, (seed, tokens, kv_heads, group, width), strict=True))
            if name == 'snapkv':
                case |= {'window': window, 'kernel': kernel}
            found[name].append({**case, 'keep': len(selected[0]), 'selected': selected})
    how = SimpleNamespace(
        how='kvpress 0.5.5, by test/data/record_kvpress.py, which says how', shape=SHAPE
    )
    print(json.dumps({**vars(how), **found}))


if __name__ == '__main__':
    main()
