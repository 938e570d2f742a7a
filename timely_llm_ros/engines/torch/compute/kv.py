"""The KV pool: one row per token and layer, handed out in any order and never moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

Copies = dict[int, tuple[torch.Tensor, ...]]
"""Keys and values by layer, each ``[tokens, key-value heads, width]``."""

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from timely_llm_ros.engines.core import EvictionMethod
    from timely_llm_ros.engines.torch.compute.eviction import QueryWindow

    Slots = NDArray[np.int64]


class KvPool:
    """Keys and values of ``capacity`` tokens for every layer.

    A layer's storage is made when it is first written, with the shape and dtype that the model
    really uses.
    """

    def __init__(self, capacity: int, device: torch.device) -> None:
        self.capacity = capacity
        self._device = device
        self._free = np.arange(capacity - 1, -1, -1, dtype=np.int64)
        self._free_count = capacity
        self._layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    @property
    def used(self) -> int:
        """Tokens held."""
        return self.capacity - self._free_count

    def allocate(self, count: int) -> Slots:
        """Return ``count`` free slots.

        Raises:
            RuntimeError: There are not that many, so the account of tokens is wrong.
        """
        if count > self._free_count:
            raise RuntimeError(f'{count} KV slots: expected at most {self._free_count}')
        self._free_count -= count
        return self._free[self._free_count : self._free_count + count][::-1].copy()

    def free(self, slots: Slots) -> None:
        """Take slots back; what they hold is lost."""
        count = len(slots)
        self._free[self._free_count : self._free_count + count] = slots[::-1]
        self._free_count += count

    def write(
        self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store a step's keys and values ``[tokens, heads, width]``; return the layer's storage."""
        storage = self._layers.get(layer)
        if storage is None:
            storage = (
                torch.zeros((self.capacity, *keys.shape[1:]), dtype=keys.dtype, device=keys.device),
                torch.zeros(
                    (self.capacity, *values.shape[1:]), dtype=values.dtype, device=values.device
                ),
            )
            self._layers[layer] = storage
        storage[0].index_copy_(0, slots, keys)
        storage[1].index_copy_(0, slots, values)
        return storage

    def select(
        self, slots: Slots, method: EvictionMethod, window: QueryWindow | None, keep: int
    ) -> dict[int, torch.Tensor]:
        """Return which positions of a context to keep, by layer: ``[key-value heads, keep]``."""
        rows = torch.tensor(slots, device=self._device)
        scaling = 1.0 if window is None else window.scaling
        return {
            layer: method.select(
                keys[rows], None if window is None else window.of(layer), scaling, keep
            )
            for layer, (keys, _) in self._layers.items()
        }

    def gather(self, slots: Slots, kept: dict[int, torch.Tensor]) -> Copies:
        """Return copies of what a context keeps, each key-value head its own positions."""
        rows = torch.tensor(slots, device=self._device)
        copies = {}
        for layer, positions in kept.items():
            heads = torch.arange(len(positions), device=self._device)
            chosen = rows[positions.t()]
            copies[layer] = tuple(part[chosen, heads] for part in self._layers[layer])
        return copies

    def scatter(self, slots: Slots, copies: Copies) -> None:
        """Store copies in slots, in their order."""
        rows = torch.tensor(slots, device=self._device)
        for layer, parts in copies.items():
            for storage, part in zip(self._layers[layer], parts, strict=True):
                storage.index_copy_(0, rows, part)


class SlotList:
    """The slots of one context in order of position; grows at the end."""

    def __init__(self) -> None:
        self._buffer = np.empty(64, np.int64)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def array(self) -> Slots:
        """The slots; a view, good until the next :meth:`extend`."""
        return self._buffer[: self._length]

    def extend(self, slots: Slots) -> None:
        """Append slots."""
        length = self._length + len(slots)
        if length > len(self._buffer):
            grown = np.empty(max(length, 2 * len(self._buffer)), np.int64)
            grown[: self._length] = self._buffer[: self._length]
            self._buffer = grown
        self._buffer[self._length : length] = slots
        self._length = length

    def cut(self, length: int) -> Slots:
        """Shorten to ``length`` and return the slots cut off."""
        cut = self._buffer[length : self._length].copy()
        self._length = length
        return cut
