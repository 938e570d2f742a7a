"""Attention over the KV pool for generations of different lengths in one step.

All tokens of a step go through the model as one row of text; only attention tells generations
apart. It is registered with transformers, and any model with standard attention can use it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

if TYPE_CHECKING:
    from timely_llm_ros.engines.torch.compute.eviction import QueryWindow
    from timely_llm_ros.engines.torch.compute.kv import KvPool, Slots

_names = itertools.count()


@dataclass(slots=True)
class Chunk:
    """Several new tokens of one context: ``count`` tokens from row ``row`` of the step."""

    row: int
    count: int
    slots: torch.Tensor
    masks: dict[int | None, torch.Tensor] = field(default_factory=dict)

    def mask(self, window: int | None, group: int, dtype: torch.dtype) -> torch.Tensor:
        """Return what to add to the scores, ``[group * count, positions]``; all layers share it."""
        mask = self.masks.get(window)
        if mask is None:
            positions = torch.arange(len(self.slots), device=self.slots.device)
            own = positions[-self.count :, None]
            hidden = positions > own
            if window is not None:
                hidden |= positions <= own - window
            added = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device)
            mask = added.masked_fill_(hidden, -torch.inf).repeat(group, 1)
            self.masks[window] = mask
        return mask


@dataclass(slots=True)
class AttentionStep:
    """Where one step's tokens are.

    The first rows are single tokens, one per context; the rest are chunks.

    Attributes:
        written: The slot of every token.
        single_slots: Slots of the single tokens' contexts, flattened ``[contexts, longest]``, with
            any slot beyond a context's length.
        single_lengths: Lengths of these contexts.
        chunks: The chunks.
        observed: Rows whose queries somebody gathers: first row, number, and who.
    """

    written: torch.Tensor
    single_slots: torch.Tensor
    single_lengths: list[int]
    chunks: list[Chunk]
    masks: dict[int | None, torch.Tensor | None] = field(default_factory=dict)
    observed: list[tuple[int, int, QueryWindow]] = field(default_factory=list)

    @classmethod
    def build(
        cls, singles: list[Slots], chunks: list[tuple[int, Slots]], device: torch.device
    ) -> AttentionStep:
        """Build it from each context's slots; a chunk also has its number of new tokens."""
        lengths = [len(slots) for slots in singles]
        table = np.zeros((len(singles), max(lengths, default=0)), np.int64)
        written = [slots[-1:] for slots in singles]
        for row, slots in zip(table, singles, strict=True):
            row[: len(slots)] = slots
        built = []
        start = len(singles)
        for count, slots in chunks:
            written.append(slots[-count:])
            built.append(Chunk(start, count, _tensor(slots, device)))
            start += count
        return cls(
            _tensor(np.concatenate(written), device),
            _tensor(table.reshape(-1), device),
            lengths,
            built,
        )

    def single_mask(self, window: int | None) -> torch.Tensor | None:
        """Return which positions single tokens see, ``[contexts, 1, 1, longest]``; None for all."""
        if window not in self.masks:
            lengths = np.asarray(self.single_lengths)[:, None]
            positions = np.arange(max(self.single_lengths))
            mask = positions < lengths
            if window is not None:
                mask &= positions >= lengths - window
            self.masks[window] = (
                None
                if mask.all()
                else torch.from_numpy(mask[:, None, None]).to(self.written.device)
            )
        return self.masks[window]


class PagedAttention:
    """An attention function of transformers that reads and writes a KV pool.

    Set ``step`` before the model is called. ``name`` is what to call it in transformers.
    """

    def __init__(self, pool: KvPool) -> None:
        self.step: AttentionStep | None = None
        self.name = f'timely_paged_{next(_names)}'
        self._pool = pool
        self._gathered: dict[tuple[int, torch.dtype], torch.Tensor] = {}
        AttentionInterface.register(self.name, self)

    def __call__(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        scaling: float | None = None,
        sliding_window: int | None = None,
        **_: Any,
    ) -> tuple[torch.Tensor, None]:
        """Attend; ``[1, heads, tokens, width]`` in, ``[1, tokens, heads, width]`` out."""
        if self.step is None:
            raise RuntimeError('attention without a step: expected one to be set before')
        layer: Any = module.layer_idx
        queries, keys, values = (part[0].transpose(0, 1) for part in (query, key, value))
        scale = query.shape[3] ** -0.5 if scaling is None else scaling
        out = self.attend(layer, self.step, queries, keys, values, scale, sliding_window)
        return out[None], None

    def attend(
        self,
        layer: int,
        step: AttentionStep,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scaling: float,
        window: int | None,
    ) -> torch.Tensor:
        """Store a step's keys and values and attend.

        Queries and the result are ``[tokens, heads, width]``, keys and values ``[tokens, key-value
        heads, width]``. ``scaling`` is the factor of the scores, ``window`` the number of positions
        that a token sees, itself included; None for all.
        """
        keys, values = self._pool.write(layer, step.written, key, value)
        for row, count, gathered in step.observed:
            gathered.take(layer, query[row : row + count], scaling)
        heads, width = query.shape[1:]
        kv_heads = key.shape[1]
        group = heads // kv_heads
        pieces = []
        singles = len(step.single_lengths)
        if singles:
            # With one token per context, the heads of a group can go where queries go.
            shape = (singles, -1, kv_heads)
            out = scaled_dot_product_attention(
                query[:singles].reshape(singles, kv_heads, group, width),
                self._gather(0, keys, step.single_slots).view(*shape, width).transpose(1, 2),
                self._gather(1, values, step.single_slots).view(*shape, width).transpose(1, 2),
                attn_mask=step.single_mask(window),
                scale=scaling,
            )
            pieces.append(out.reshape(singles, heads, width))
        for chunk in step.chunks:
            rows = query[chunk.row : chunk.row + chunk.count].transpose(0, 1)
            out = scaled_dot_product_attention(
                rows.reshape(1, kv_heads, group * chunk.count, width),
                self._gather(0, keys, chunk.slots).transpose(0, 1)[None],
                self._gather(1, values, chunk.slots).transpose(0, 1)[None],
                attn_mask=chunk.mask(window, group, query.dtype),
                scale=scaling,
            )
            pieces.append(out.reshape(heads, chunk.count, width).transpose(0, 1))
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    def _gather(self, part: int, storage: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        """Return rows of a layer's keys (0) or values (1), good until the next call for that part.

        They are copied into memory that stays. With long contexts, memory that is allocated anew
        for every layer comes page by page from the kernel, which takes longer than copying.
        """
        rows = self._gathered.get((part, storage.dtype))
        if rows is None or len(rows) < len(slots) or rows.shape[1:] != storage.shape[1:]:
            size = (max(1024, 2 * len(slots)), *storage.shape[1:])
            rows = torch.empty(size, dtype=storage.dtype, device=storage.device)
            self._gathered[part, storage.dtype] = rows
        return torch.index_select(storage, 0, slots, out=rows[: len(slots)])


def _tensor(array: Slots, device: torch.device) -> torch.Tensor:
    # Copied, because slots are views that change with the next step.
    return torch.tensor(array, device=device)
