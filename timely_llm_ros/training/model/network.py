"""The planner's Llama network, written for fast training of short blocks behind shared scenes.

A step computes the skill set's fixed prompt once, each scene behind it, and many blocks (one
instruction and its plan each) behind each scene. A block sees the fixed prompt, its scene and
itself, at the positions that it has at inference. All tokens go through the linear layers as one
matrix; only attention tells the three parts apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class NetworkShape:
    """Sizes of the network; names are those of transformers' ``LlamaConfig``."""

    vocab_size: int
    hidden_size: int = 256
    intermediate_size: int = 512
    num_hidden_layers: int = 4
    num_attention_heads: int = 8
    num_key_value_heads: int = 4
    rope_theta: float = 1e8
    rms_norm_eps: float = 1e-5
    max_position_embeddings: int = 8192

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads


@dataclass(slots=True)
class PackedBatch:
    """Token ids of one step; S scenes of L tokens, each with R rows of B tokens.

    A row holds one or more blocks behind one another; what is left of it is padding.

    Attributes:
        fixed: ``[P]``, the skill set's fixed prompt.
        scenes: ``[S, L]``, all of one length.
        blocks: ``[S, R, B]``, the rows.
        block_index: ``[S, R, B]``, which block of its row a token belongs to; -1 is padding.
        block_offset: ``[S, R, B]``, the token's place in its block.
        targets: ``[S, R, B]``, the token to predict there, -100 where none is.
        hints: ``[S, R, B]``, a second answer there (``auxiliary_targets.py``), -100 where none is.
        early_hints: ``[H, 2]``, a place among all tokens (fixed prompt, scenes, rows, in this
            order) and the token that the network should know there after its second layer.
    """

    fixed: Tensor
    scenes: Tensor
    blocks: Tensor
    block_index: Tensor
    block_offset: Tensor
    targets: Tensor
    hints: Tensor
    early_hints: Tensor

    @property
    def tokens(self) -> int:
        """How many tokens are computed, padding included."""
        return self.fixed.numel() + self.scenes.numel() + self.blocks.numel()


class PlannerNetwork(nn.Module):
    """Weights of all layers, stacked by role, and the training pass over a packed batch.

    Its matrices are zero until :func:`initialise` or a checkpoint sets them.
    """

    frequencies: Tensor
    cosines: Tensor
    sines: Tensor

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__()
        self.shape = shape
        layers, width, inner = (
            shape.num_hidden_layers,
            shape.hidden_size,
            shape.intermediate_size,
        )
        kv_width = shape.num_key_value_heads * shape.head_dim

        def matrices(rows: int, columns: int) -> nn.Parameter:
            return nn.Parameter(torch.zeros(layers, rows, columns))

        self.embedding = nn.Parameter(torch.zeros(shape.vocab_size, width))
        self.q = matrices(width, width)
        self.k = matrices(kv_width, width)
        self.v = matrices(kv_width, width)
        self.o = matrices(width, width)
        self.gate = matrices(inner, width)
        self.up = matrices(inner, width)
        self.down = matrices(width, inner)
        self.q_bias = nn.Parameter(torch.zeros(layers, width))
        self.k_bias = nn.Parameter(torch.zeros(layers, kv_width))
        self.v_bias = nn.Parameter(torch.zeros(layers, kv_width))
        self.o_bias = nn.Parameter(torch.zeros(layers, width))
        self.attention_norm = nn.Parameter(torch.ones(layers, width))
        self.mlp_norm = nn.Parameter(torch.ones(layers, width))
        self.final_norm = nn.Parameter(torch.full((width,), 0.08))
        half = torch.arange(0, shape.head_dim, 2, dtype=torch.float64)
        self.frequencies = shape.rope_theta ** -(half / shape.head_dim)
        angles = torch.outer(
            torch.arange(shape.max_position_embeddings, dtype=torch.float64), self.frequencies
        )
        angles = torch.cat((angles, angles), dim=1)
        self.register_buffer('cosines', angles.cos().float(), persistent=False)
        self.register_buffer('sines', angles.sin().float(), persistent=False)

    def matrix_parameters(self) -> list[nn.Parameter]:
        """Return the stacks of matrices, ``[layer, row, column]`` each."""
        return [self.q, self.k, self.v, self.o, self.gate, self.up, self.down]

    def other_parameters(self) -> list[nn.Parameter]:
        """Return everything that is not a stack of matrices."""
        matrices = {id(parameter) for parameter in self.matrix_parameters()}
        return [item for item in self.parameters() if id(item) not in matrices]

    def _norm(self, values: Tensor, weight: Tensor) -> Tensor:
        eps = self.shape.rms_norm_eps
        return functional.rms_norm(values, (self.shape.hidden_size,), weight.to(values.dtype), eps)

    def loss(self, batch: PackedBatch, *, hint_weight: float) -> Tensor:
        """Return the mean cross entropy over the batch's targets, computed in bfloat16.

        Hints count ``hint_weight``: with them the network learns to look objects up long before it
        could guess why.
        """
        early: list[Tensor] = []
        dtype = torch.bfloat16
        hidden = self.blocks_hidden(batch, dtype=dtype, early=early if hint_weight else None)
        targets, hints = batch.targets.reshape(-1), batch.hints.reshape(-1)
        places = (targets >= 0).nonzero().squeeze(1)
        table = self.embedding.to(dtype).T
        told = (hidden[places] @ table).float().log_softmax(dim=-1)
        loss = functional.nll_loss(told, targets[places])
        if hint_weight:
            late = functional.nll_loss(told, hints[places], ignore_index=-100, reduction='sum')
            loss = loss + hint_weight * late / len(places)
            if len(batch.early_hints):
                logits = (early[0] @ table).float()
                loss = loss + hint_weight * functional.cross_entropy(
                    logits, batch.early_hints[:, 1]
                )
        return loss

    def blocks_hidden(
        self, batch: PackedBatch, *, dtype: torch.dtype, early: list[Tensor] | None = None
    ) -> Tensor:
        """Return the final hidden states of the rows' tokens, ``[S * R * B, hidden]``.

        Appends to ``early`` the normed states after the second layer at the early hints' places.
        """
        parts = _Parts(batch)
        ids = torch.cat((batch.fixed, batch.scenes.reshape(-1), batch.blocks.reshape(-1)))
        cosines = self.cosines[parts.positions].unsqueeze(1).to(dtype)
        sines = self.sines[parts.positions].unsqueeze(1).to(dtype)
        hidden = functional.embedding(ids, self.embedding).to(dtype)
        for layer in range(self.shape.num_hidden_layers - 1):
            hidden = self._layer(layer, hidden, cosines, sines, parts)
            if layer == 1 and early is not None:
                early.append(self._norm(hidden[batch.early_hints[:, 0]], self.final_norm))
        hidden = self._layer(
            self.shape.num_hidden_layers - 1, hidden, cosines, sines, parts, only_rows=True
        )
        return self._norm(hidden, self.final_norm)

    def _project(self, role: str, layer: int, values: Tensor) -> Tensor:
        weight: Tensor = getattr(self, role)[layer]
        bias: Tensor = getattr(self, f'{role}_bias')[layer]
        return functional.linear(values, weight.to(values.dtype), bias.to(values.dtype))

    def _layer(
        self,
        layer: int,
        hidden: Tensor,
        cosines: Tensor,
        sines: Tensor,
        parts: _Parts,
        *,
        only_rows: bool = False,
    ) -> Tensor:
        """Return the layer's output, of the rows' tokens alone where nothing else is wanted."""
        dtype, width = hidden.dtype, self.shape.head_dim
        kv_heads = self.shape.num_key_value_heads
        normed = self._norm(hidden, self.attention_norm[layer])
        start = parts.rows_from if only_rows else 0
        hidden, before = hidden[start:], normed
        normed = normed[start:]
        values = self._project('v', layer, before).view(-1, kv_heads, width)
        if layer == 0:
            # Looks back by position alone: the matrices stay zero.
            keys = self.k_bias[0].to(dtype).expand(len(before), -1)
            queries = self.q_bias[0].to(dtype).expand(len(normed), -1)
        else:
            keys = self._project('k', layer, before)
            queries = self._project('q', layer, normed)
        keys = _rotate(keys.reshape(-1, kv_heads, width), cosines, sines)
        queries = queries.reshape(-1, self.shape.num_attention_heads, width)
        queries = _rotate(queries, cosines[start:], sines[start:])
        mixed = parts.attend(queries, keys, values, only_rows=only_rows)
        hidden = hidden + self._project('o', layer, mixed)
        normed = self._norm(hidden, self.mlp_norm[layer])
        gate = functional.linear(normed, self.gate[layer].to(dtype))
        up = functional.linear(normed, self.up[layer].to(dtype))
        return hidden + functional.linear(functional.silu(gate) * up, self.down[layer].to(dtype))


class _Parts:
    """Which tokens of a batch are fixed prompt, scenes and rows, and what each may attend to."""

    def __init__(self, batch: PackedBatch) -> None:
        self.n_fixed, (self.n_scenes, self.n_scene) = batch.fixed.numel(), batch.scenes.shape
        self.n_rows, self.n_row = batch.blocks.shape[1:]
        self.rows_from = self.n_fixed + self.n_scenes * self.n_scene
        self.positions = torch.cat(
            (
                torch.arange(self.n_fixed),
                (self.n_fixed + torch.arange(self.n_scene)).repeat(self.n_scenes),
                self.n_fixed + self.n_scene + batch.block_offset.reshape(-1),
            )
        )
        self._hide_fixed, self._hide_scene = _causal(self.n_fixed), _causal(self.n_scene)
        index = batch.block_index.flatten(0, 1)
        other = index[:, :, None] != index[:, None, :]
        self._hide_row = (other | _causal(self.n_row))[:, None, None]

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, *, only_rows: bool) -> Tensor:
        """Return attention of all tokens, or of the rows' alone, ``[T, heads * width]``."""
        n_fixed, n_scenes, rows_from = self.n_fixed, self.n_scenes, self.rows_from
        width = queries.shape[-1]
        scene_keys, scene_values = self._behind_fixed(keys), self._behind_fixed(values)
        mixed = []
        if not only_rows and n_scenes == 1:
            # The fixed prompt and the scene are one plain sequence.
            mixed.append(_attend_alone(queries[:rows_from], keys[:rows_from], values[:rows_from]))
        elif not only_rows:
            fixed_queries, fixed_keys, fixed_values = (
                part[None, :n_fixed] for part in (queries, keys, values)
            )
            mixed.append(_attend(fixed_queries, fixed_keys, fixed_values, self._hide_fixed))
            scene = queries[n_fixed:rows_from].view(n_scenes, self.n_scene, -1, width)
            mixed.append(_attend(scene, scene_keys, scene_values, self._hide_scene))
        rows = queries[0 if only_rows else rows_from :]
        mixed.append(
            _attend(
                rows.view(n_scenes * self.n_rows, self.n_row, -1, width),
                self._behind_scene(scene_keys, keys),
                self._behind_scene(scene_values, values),
                self._hide_row,
            )
        )
        return torch.cat(mixed)

    def _behind_fixed(self, part: Tensor) -> Tensor:
        """Return ``[S, P + L, kv_heads, width]``: each scene's tokens behind the fixed ones."""
        own = part[self.n_fixed : self.rows_from].view(self.n_scenes, -1, *part.shape[1:])
        return torch.cat((part[: self.n_fixed].expand(self.n_scenes, -1, -1, -1), own), dim=1)

    def _behind_scene(self, before: Tensor, part: Tensor) -> Tensor:
        """Return ``[S * R, P + L + B, kv_heads, width]``: each row's tokens behind its scene."""
        own = part[self.rows_from :].view(self.n_scenes * self.n_rows, -1, *part.shape[1:])
        return torch.cat((before.repeat_interleave(self.n_rows, dim=0), own), dim=1)


def _rotate(values: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Apply rotary positions to ``[T, heads, head_dim]``."""
    first, second = values.chunk(2, dim=-1)
    return values * cosines + torch.cat((-second, first), dim=-1) * sines


def _causal(length: int) -> Tensor:
    """Return ``[length, length]``: True where a key is behind its query."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)


class _MaskedAttention(torch.autograd.Function):
    """Attention by plain matrix products, with the scores masked and normalised once.

    For such narrow heads and short parts it is about twice as fast on a CPU as the fused kernel.
    """

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, hide: Tensor) -> Tensor:
        """Return ``[batch, kv_heads, groups * T, width]``; ``hide`` is for the last keys."""
        scores = (queries * queries.shape[-1] ** -0.5) @ keys.transpose(-1, -2)
        batch, kv_heads, _, n_keys = scores.shape
        length, n_hide = hide.shape[-2:]
        by_token = scores.view(batch, kv_heads, -1, length, n_keys)
        by_token[..., n_keys - n_hide :].masked_fill_(hide, -torch.inf)
        weights = scores.softmax(dim=-1)
        ctx.save_for_backward(queries, keys, values, weights)
        mixed: Tensor = weights @ values
        return mixed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """Return the gradients of queries, keys and values."""
        queries, keys, values, weights = ctx.saved_tensors
        scale = queries.shape[-1] ** -0.5
        for_values = weights.transpose(-1, -2) @ gradient
        for_weights = gradient @ values.transpose(-1, -2)
        backward = torch.ops.aten._softmax_backward_data  # noqa: SLF001 - torch has no public one
        for_scores = backward(for_weights, weights, -1, weights.dtype)
        for_keys = for_scores.transpose(-1, -2) @ (queries * scale)
        return (for_scores @ keys) * scale, for_keys, for_values, None


def _attend(queries: Tensor, keys: Tensor, values: Tensor, hide: Tensor) -> Tensor:
    """Return attention as ``[batch * T, heads * width]``.

    Queries are ``[batch, T, heads, width]``, keys and values ``[batch, K, kv_heads, width]``.
    ``hide`` ends in ``[T, H]`` and says which of the last H keys a query must not see.
    """
    batch, length, heads, width = queries.shape
    kv_heads = keys.shape[2]
    grouped = queries.transpose(1, 2).reshape(batch, kv_heads, -1, width)
    mixed: Tensor = _MaskedAttention.apply(  # type: ignore[no-untyped-call]
        grouped, keys.transpose(1, 2), values.transpose(1, 2), hide
    )
    mixed = mixed.view(batch, heads, length, width)
    return mixed.transpose(1, 2).reshape(-1, heads * width)


def _attend_alone(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return causal attention of one sequence, ``[T, heads or kv_heads, width]`` each."""
    groups = queries.shape[1] // keys.shape[1]
    queries, keys, values = (part.transpose(0, 1)[None] for part in (queries, keys, values))
    keys, values = keys.repeat_interleave(groups, 1), values.repeat_interleave(groups, 1)
    mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    return mixed[0].transpose(0, 1).flatten(1)
