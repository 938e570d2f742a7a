"""A small Qwen2 with a classification head, in numpy: a length prediction in a millisecond.

It computes what ``Qwen2ForSequenceClassification`` of transformers computes for one sequence, but
needs no torch. So the planner's process can ask it when a task arrives, and the engine's worker on
a thread beside its own model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]


class BodyShape(NamedTuple):
    """Sizes, named as in transformers' ``Qwen2Config``."""

    hidden_size: int = 64
    intermediate_size: int = 160
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6


class SmallBody:
    """The network, with its weights by the names that transformers gives them."""

    def __init__(self, shape: BodyShape, weights: Mapping[str, Floats]) -> None:
        self._shape = shape
        self._weights = {name: np.asarray(it, np.float32) for name, it in weights.items()}
        self._width = shape.hidden_size // shape.num_attention_heads
        half = np.arange(0, self._width, 2) / self._width
        self._frequencies: Floats = (shape.rope_theta**-half).astype(np.float32)

    def scores(self, ids: Sequence[int]) -> Floats:
        """Return the head's scores after the last token, ``[classes]``."""
        hidden = self._weights['model.embed_tokens.weight'][np.asarray(ids)]
        angles = np.arange(len(ids), dtype=np.float32)[:, None] * self._frequencies
        turn = np.concatenate([angles, angles], axis=1)
        cos, sin = np.cos(turn)[:, None], np.sin(turn)[:, None]
        for layer in range(self._shape.num_hidden_layers):
            hidden = self._run(f'model.layers.{layer}.', hidden, cos, sin)
        last = self._normal(hidden[-1], 'model.norm.weight')
        scores: Floats = self._weights['score.weight'] @ last
        return scores

    def _run(self, layer: str, hidden: Floats, cos: Floats, sin: Floats) -> Floats:
        """Return one layer's output, ``[tokens, hidden]``."""
        shape, weights, width = self._shape, self._weights, self._width
        tokens = len(hidden)
        normal = self._normal(hidden, f'{layer}input_layernorm.weight')

        def project(name: str, heads: int) -> Floats:
            inner = normal @ weights[f'{layer}self_attn.{name}.weight'].T
            inner += weights[f'{layer}self_attn.{name}.bias']
            split: Floats = inner.reshape(tokens, heads, width)
            return split

        def rotate(heads: Floats) -> Floats:
            low, high = heads[..., : width // 2], heads[..., width // 2 :]
            turned: Floats = heads * cos + np.concatenate([-high, low], axis=-1) * sin
            return turned

        groups = shape.num_attention_heads // shape.num_key_value_heads
        queries = rotate(project('q_proj', shape.num_attention_heads))
        keys = np.repeat(rotate(project('k_proj', shape.num_key_value_heads)), groups, axis=1)
        values = np.repeat(project('v_proj', shape.num_key_value_heads), groups, axis=1)
        scores = queries.transpose(1, 0, 2) @ keys.transpose(1, 2, 0) * np.float32(width**-0.5)
        scores += np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)
        mixed = softmax(scores) @ values.transpose(1, 0, 2)
        flat = mixed.transpose(1, 0, 2).reshape(tokens, -1)
        hidden = hidden + flat @ weights[f'{layer}self_attn.o_proj.weight'].T
        normal = self._normal(hidden, f'{layer}post_attention_layernorm.weight')
        gate = normal @ weights[f'{layer}mlp.gate_proj.weight'].T
        gate *= 1 / (1 + np.exp(-gate))
        gate *= normal @ weights[f'{layer}mlp.up_proj.weight'].T
        out: Floats = hidden + gate @ weights[f'{layer}mlp.down_proj.weight'].T
        return out

    def _normal(self, hidden: Floats, name: str) -> Floats:
        square = np.mean(hidden * hidden, axis=-1, keepdims=True)
        normal: Floats = hidden / np.sqrt(square + self._shape.rms_norm_eps) * self._weights[name]
        return normal


def softmax(scores: Floats) -> Floats:
    """Return the softmax over the last axis, in the precision of the scores."""
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: Floats = scores / scores.sum(axis=-1, keepdims=True)
    return shares
