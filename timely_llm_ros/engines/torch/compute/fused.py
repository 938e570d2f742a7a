"""A faster forward pass for models built like Llama, on the CPU in float32.

On a small model a step in transformers takes long not for its arithmetic but for its number of
operations, some forty per layer. Here there are about fifteen: projections that read the same input
are one matrix, and rotary embedding is one complex product. The rows of the query and key
projections are reordered for that, which leaves every attention score as it was. When a model is
loaded, its logits are compared with those of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import embedding, linear, rms_norm, silu

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from timely_llm_ros.engines.torch.compute.attention import AttentionStep, PagedAttention
    from timely_llm_ros.engines.torch.compute.tap import LayerTap

FAMILIES = frozenset({'llama', 'mistral', 'qwen2', 'qwen3'})
"""Model types whose layers are these; others run in transformers."""

STATIC_ROTARY = frozenset({'default', 'linear', 'llama3'})
"""Rotary embeddings whose frequencies do not depend on the length."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer's weights; ``inner`` is query, key and value, ``gate`` is gate and up."""

    index: int
    window: int | None
    input_norm: torch.Tensor
    inner: torch.Tensor
    inner_bias: torch.Tensor | None
    head_norm: torch.Tensor | None
    output: torch.Tensor
    output_bias: torch.Tensor | None
    middle_norm: torch.Tensor
    gate: torch.Tensor
    down: torch.Tensor


class ForwardPass:
    """A forward pass that can be interrupted within and between layers, and goes on from there.

    Other passes may run meanwhile, as long as none reads what this one writes. ``parts`` computes
    one part after the other and returns the logits.
    """

    logits: torch.Tensor
    """The result once it has ended, ``[wanted, vocabulary]``."""

    def __init__(self, parts: Generator[None, None, torch.Tensor]) -> None:
        self._parts = parts

    def advance(self, stop: Callable[[], bool] | None = None) -> bool:
        """Go on until it ends or ``stop`` interrupts it; return whether it has ended.

        ``stop`` is asked after each part, so every call computes at least one.
        """
        while True:
            try:
                next(self._parts)
            except StopIteration as end:
                self.logits = end.value
                return True
            if stop is not None and stop():
                return False


class FusedDecoder:
    """The weights of a model that :meth:`fits`, arranged for few operations."""

    def __init__(self, model: Any, attention: PagedAttention) -> None:
        config, inner = model.config, model.model
        self._attention = attention
        first = inner.layers[0].self_attn
        self._width: int = first.head_dim
        self._heads: int = config.num_attention_heads
        self._kv_heads: int = config.num_key_value_heads
        self._scaling: float = first.scaling
        self._epsilon: float = config.rms_norm_eps
        self._embedding = inner.embed_tokens.weight
        self._norm = inner.norm.weight
        self._head = model.lm_head.weight
        self._frequencies = inner.rotary_emb.inv_freq.float()
        self._rotary_scaling: float = inner.rotary_emb.attention_scaling
        self._rotations = torch.empty(0, len(self._frequencies), dtype=torch.complex64)
        half = self._width // 2
        self._order = torch.arange(self._width).view(2, half).t().reshape(-1)
        self._layers = [
            self._layer(index, layer, config) for index, layer in enumerate(inner.layers)
        ]

    @staticmethod
    def fits(model: Any) -> bool:
        """Return whether a model is built from the parts that this class knows."""
        config = model.config
        rotary = getattr(getattr(model, 'model', None), 'rotary_emb', None)
        return (
            config.model_type in FAMILIES
            and model.dtype == torch.float32
            and model.device.type == 'cpu'
            and config.hidden_act == 'silu'
            and not getattr(config, 'mlp_bias', False)
            and getattr(rotary, 'rope_type', 'default') in STATIC_ROTARY
        )

    def begin(
        self,
        ids: list[int],
        positions: list[int],
        step: AttentionStep,
        wanted: list[int],
        tap: LayerTap | None = None,
    ) -> ForwardPass:
        """Return a pass that gives the logits of the ``wanted`` tokens; nothing is computed yet."""
        return ForwardPass(self._parts(ids, positions, step, wanted, tap))

    def _parts(
        self,
        ids: list[int],
        positions: list[int],
        step: AttentionStep,
        wanted: list[int],
        tap: LayerTap | None,
    ) -> Generator[None, None, torch.Tensor]:
        """Compute a pass half a layer at a time; yield where the rest may be put off."""
        hidden = embedding(torch.tensor(ids), self._embedding)
        if tap is not None:
            tap.see(0, hidden)
        rotation = self._rotation(positions)
        for layer in self._layers:
            if layer.index:
                yield
            hidden = self._attend(layer, hidden, rotation, step)
            yield
            hidden = self._mix(layer, hidden)
            if tap is not None:
                tap.see(layer.index + 1, hidden)
        if wanted != list(range(len(ids))):
            hidden = hidden[wanted]
        return linear(self._normal(hidden, self._norm), self._head)

    def _attend(
        self, layer: _Layer, hidden: torch.Tensor, rotation: torch.Tensor, step: AttentionStep
    ) -> torch.Tensor:
        """Return the hidden states after a layer's first half."""
        tokens, rotated, width = len(hidden), self._heads + self._kv_heads, self._width
        normal = self._normal(hidden, layer.input_norm)
        inner = linear(normal, layer.inner, layer.inner_bias).view(tokens, -1, width)
        turning, values = inner[:, :rotated], inner[:, rotated:]
        if layer.head_norm is not None:
            turning = rms_norm(turning, (width,), None, self._epsilon) * layer.head_norm
        pairs = torch.view_as_complex(turning.view(tokens, rotated, width // 2, 2))
        turned = torch.view_as_real(pairs * rotation).view(tokens, rotated, width)
        mixed = self._attention.attend(
            layer.index,
            step,
            turned[:, : self._heads],
            turned[:, self._heads :],
            values,
            self._scaling,
            layer.window,
        )
        mixed = mixed.reshape(tokens, -1)
        if layer.output_bias is not None:
            hidden = hidden + layer.output_bias
        return torch.addmm(hidden, mixed, layer.output)

    def _mix(self, layer: _Layer, hidden: torch.Tensor) -> torch.Tensor:
        """Return the hidden states after its second half."""
        wide = linear(self._normal(hidden, layer.middle_norm), layer.gate)
        size = wide.shape[1] // 2
        return torch.addmm(hidden, silu(wide[:, :size]).mul_(wide[:, size:]), layer.down)

    def _normal(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rms_norm(hidden, (hidden.shape[-1],), weight, self._epsilon)

    def _rotation(self, positions: list[int]) -> torch.Tensor:
        """Return each position's rotation, ``[tokens, 1, width / 2]``."""
        longest = max(positions) + 1
        if longest > len(self._rotations):
            angles = torch.outer(torch.arange(float(2 * longest)), self._frequencies)
            scale = torch.full_like(angles, self._rotary_scaling)
            self._rotations = torch.polar(scale, angles)
        return self._rotations[positions][:, None]

    def _layer(self, index: int, layer: Any, config: Any) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        projections = attention.q_proj, attention.k_proj, attention.v_proj
        weights = [self._paired(p.weight, turns=p is not attention.v_proj) for p in projections]
        biases = [
            self._paired(p.bias, turns=p is not attention.v_proj)
            for p in projections
            if p.bias is not None
        ]
        head_norm = None
        if hasattr(attention, 'q_norm'):
            norms = attention.q_norm.weight[self._order], attention.k_norm.weight[self._order]
            head_norm = torch.cat(
                [norms[0].expand(self._heads, -1), norms[1].expand(self._kv_heads, -1)]
            )
        window = getattr(attention, 'sliding_window', None)
        if config.model_type == 'mistral':
            window = config.sliding_window
        return _Layer(
            index,
            window,
            layer.input_layernorm.weight,
            torch.cat(weights),
            torch.cat(biases) if biases else None,
            head_norm,
            attention.o_proj.weight.t(),
            attention.o_proj.bias,
            layer.post_attention_layernorm.weight,
            torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
            mlp.down_proj.weight.t(),
        )

    def _paired(self, weight: torch.Tensor, *, turns: bool) -> torch.Tensor:
        """Put the two numbers that rotary embedding turns together next to each other."""
        if not turns:
            return weight
        heads = weight.reshape(-1, self._width, *weight.shape[1:])
        return heads[:, self._order].reshape(weight.shape)
