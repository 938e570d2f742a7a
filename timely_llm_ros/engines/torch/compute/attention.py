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

SHORT = 8
"""Most new tokens of a context that are computed together with those of other contexts."""


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

    The first rows are those of short parts, with up to :data:`SHORT` new tokens of a context each;
    the rest are chunks. Short parts are computed together, ``most`` queries for each.

    Attributes:
        written: The slot of every token.
        slots: Slots of the short parts' contexts, flattened ``[contexts, longest]``, with any slot
            beyond a context's length.
        lengths: Lengths of these contexts, the new tokens included.
        counts: How many of their tokens are new.
        most: The largest of these.
        padded: The row of each query of the short parts, flattened ``[contexts, most]``; a part
            with fewer repeats its last one. None where none has fewer.
        kept: Where in that the rows are.
        chunks: The chunks.
        observed: Rows whose queries somebody gathers: first row, number, and who.
    """

    written: torch.Tensor
    slots: torch.Tensor
    lengths: Slots
    counts: Slots
    most: int
    padded: torch.Tensor | None
    kept: torch.Tensor | None
    chunks: list[Chunk]
    masks: dict[int | None, torch.Tensor | None] = field(default_factory=dict)
    observed: list[tuple[int, int, QueryWindow]] = field(default_factory=list)

    @classmethod
    def build(cls, parts: list[tuple[int, Slots]], device: torch.device) -> AttentionStep:
        """Build it from each part's number of new tokens and its context's slots.

        The parts are in the order of the rows, short ones first.
        """
        short = [part for part in parts if part[0] <= SHORT]
        counts = np.array([count for count, _ in short], np.int64)
        lengths = np.array([len(slots) for _, slots in short], np.int64)
        table = np.zeros((len(short), lengths.max(initial=0)), np.int64)
        for row, (_, slots) in zip(table, short, strict=True):
            row[: len(slots)] = slots
        padded = kept = None
        most = int(counts.max(initial=1))
        if counts.min(initial=most) < most:
            starts = np.cumsum(counts) - counts
            places = np.arange(most)
            padded = starts[:, None] + np.minimum(places, counts[:, None] - 1)
            kept = np.flatnonzero(places < counts[:, None])
        start = int(counts.sum())
        chunks = []
        for count, slots in parts[len(short) :]:
            chunks.append(Chunk(start, count, _tensor(slots, device)))
            start += count
        return cls(
            _tensor(np.concatenate([slots[-count:] for count, slots in parts]), device),
            _tensor(table.reshape(-1), device),
            lengths,
            counts,
            most,
            None if padded is None else _tensor(padded.reshape(-1), device),
            None if kept is None else _tensor(kept, device),
            chunks,
        )

    def mask(self, window: int | None, group: int) -> torch.Tensor | None:
        """Return which positions short parts see; None for all.

        It is ``[contexts, 1, group * most, longest]``, or has 1 in place of the third where that
        does for all queries of a context.
        """
        if window not in self.masks:
            new = np.minimum(np.arange(1, self.most + 1), self.counts[:, None])
            ends = (self.lengths - self.counts)[:, None] + new
            positions = np.arange(self.lengths.max())
            mask = positions < ends[..., None]
            if window is not None:
                mask &= positions >= ends[..., None] - window
            if self.most > 1:
                mask = np.tile(mask, (1, group, 1))
            self.masks[window] = (
                None if mask.all() else torch.from_numpy(mask[:, None]).to(self.written.device)
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
        contexts = len(step.counts)
        if contexts:
            most = step.most
            queries = query[: contexts * most] if step.padded is None else query[step.padded]
            # The heads of a group go where queries go, because they read the same keys.
            queries = queries.reshape(contexts, most, kv_heads, group, width).permute(0, 2, 3, 1, 4)
            shape = (contexts, -1, kv_heads, width)
            out = scaled_dot_product_attention(
                queries.reshape(contexts, kv_heads, group * most, width),
                self._gather(0, keys, step.slots).view(shape).transpose(1, 2),
                self._gather(1, values, step.slots).view(shape).transpose(1, 2),
                attn_mask=step.mask(window, group),
                scale=scaling,
            )
            out = out.view(contexts, kv_heads, group, most, width).permute(0, 3, 1, 2, 4)
            out = out.reshape(contexts * most, heads, width)
            pieces.append(out if step.kept is None else out[step.kept])
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
