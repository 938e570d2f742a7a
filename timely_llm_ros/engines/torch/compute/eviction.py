"""Eviction on torch tensors: SnapKV, key norms, first and last tokens.

SnapKV looks from the prompt's last tokens, which hold the question, at all that is before them. It
takes the attention weights of their queries, averaged over the queries, over the heads that share a
key-value head, and over neighbouring positions, so that what is kept stays connected. Those last
tokens themselves are kept. Every layer and key-value head keeps its own tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import avg_pool1d, pad

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.engines.core import EvictionMethod


@dataclass(frozen=True, slots=True)
class SnapKv:
    """What the prompt's last tokens attend to.

    Attributes:
        window: How many tokens look, and are kept themselves.
        kernel: Neighbours, odd, over which the weights are averaged.
    """

    window: int = 16
    kernel: int = 5

    def __post_init__(self) -> None:
        if self.window < 1 or self.kernel < 1 or self.kernel % 2 == 0:
            raise ConfigurationError(
                f'window {self.window!r}, kernel {self.kernel!r}: expected at least 1, and odd'
            )

    def select(
        self, keys: torch.Tensor, queries: torch.Tensor | None, scaling: float, keep: int
    ) -> torch.Tensor:
        """Return the positions to keep, ``[key-value heads, keep]``."""
        if queries is None:
            raise ValueError('no queries: expected those of the last tokens')
        tokens, kv_heads, width = keys.shape
        looking = min(self.window, len(queries), tokens - 1)
        seen = tokens - looking
        grouped = queries[-looking:].reshape(looking, kv_heads, -1, width)
        weights = torch.einsum('qhgd,khd->hgqk', grouped.float(), keys.float()) * scaling
        hidden = torch.ones(looking, tokens, dtype=torch.bool, device=keys.device)
        weights = weights.masked_fill(hidden.triu(seen + 1), -torch.inf).softmax(-1)
        scores = weights[..., :seen].mean((1, 2))
        # Beyond the ends there is nothing, which counts: as SnapKV and kvpress average.
        scores = avg_pool1d(scores[:, None], self.kernel, 1, self.kernel // 2)[:, 0]
        return best(pad(scores, (0, looking), value=torch.inf), keep)


@dataclass(frozen=True, slots=True)
class KeyNorm:
    """The keys with the smallest norms, which attract the most attention."""

    window: int = 0

    def select(
        self,
        keys: torch.Tensor,
        queries: torch.Tensor | None,
        scaling: float,
        keep: int,
    ) -> torch.Tensor:
        """Return the positions to keep, ``[key-value heads, keep]``."""
        return best(-keys.float().norm(dim=-1).t(), keep)


@dataclass(frozen=True, slots=True)
class Streaming:
    """The first tokens, into which attention sinks, and the last ones."""

    window: int = 0
    sinks: int = 4

    def select(
        self,
        keys: torch.Tensor,
        queries: torch.Tensor | None,
        scaling: float,
        keep: int,
    ) -> torch.Tensor:
        """Return the positions to keep, ``[key-value heads, keep]``."""
        tokens, kv_heads = keys.shape[:2]
        scores = torch.arange(float(tokens), device=keys.device)
        scores[: min(self.sinks, keep - 1)] = torch.inf
        return best(scores.expand(kv_heads, -1), keep)


METHODS: Mapping[str, EvictionMethod] = {
    'snapkv': SnapKv(),
    'knorm': KeyNorm(),
    'streaming': Streaming(),
}
"""The methods by name."""


def find_method(name: str) -> EvictionMethod:
    """Return the method of that name.

    Raises:
        ConfigurationError: There is none.
    """
    try:
        return METHODS[name]
    except KeyError:
        raise ConfigurationError(f'eviction {name!r}: expected one of {sorted(METHODS)}') from None


def best(scores: torch.Tensor, keep: int) -> torch.Tensor:
    """Return where the highest scores are, ascending: ``[heads, tokens]`` to ``[heads, keep]``.

    Among infinite scores the last ones come first, because the latest tokens matter most.
    """
    sure = torch.isposinf(scores[0])
    if int(sure.sum()) >= keep:
        return sure.nonzero()[-keep:, 0].expand(len(scores), -1)
    order = scores.argsort(dim=-1, descending=True, stable=True)[:, :keep]
    return order.sort(dim=-1).values


@dataclass(slots=True)
class QueryWindow:
    """The queries of a context's latest ``size`` tokens, layer by layer."""

    size: int
    scaling: float = 1.0
    _layers: dict[int, torch.Tensor] = field(default_factory=dict)

    def take(self, layer: int, queries: torch.Tensor, scaling: float) -> None:
        """Append ``[tokens, heads, width]``."""
        self.scaling = scaling
        latest = queries[-self.size :]
        before = self._layers.get(layer)
        if before is not None and len(latest) < self.size:
            latest = torch.cat([before, latest])[-self.size :]
        # Its own memory: a view would hold the whole step's.
        self._layers[layer] = latest.clone()

    def of(self, layer: int) -> torch.Tensor:
        """Return a layer's queries, ``[tokens, heads, width]``."""
        return self._layers[layer]
