"""The ways to choose which of a prompt's tokens keep their KV. Importing this imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import torch

EvictionName = Literal['snapkv', 'knorm', 'streaming']
"""``snapkv``: what the prompt's last tokens attend to (Li et al., 2024). ``knorm``: the keys with
the smallest norms (Devoto et al., 2024). ``streaming``: the first and the last tokens (Xiao et
al., 2024)."""


class EvictionMethod(Protocol):
    """Chooses the tokens of a prompt to keep, for one layer, each key-value head by itself."""

    @property
    def window(self) -> int:
        """How many of the prompt's last tokens it wants the queries of; 0 for none."""
        ...

    def select(
        self, keys: torch.Tensor, queries: torch.Tensor | None, scaling: float, keep: int
    ) -> torch.Tensor:
        """Return the positions to keep, ascending, ``[key-value heads, keep]``.

        Equal scores go to the earlier token, so that the same prompt always keeps the same.

        Args:
            keys: ``[prompt tokens, key-value heads, width]``, rotated to their positions.
            queries: ``[window, heads, width]`` of the last tokens, rotated; there may be fewer
                than ``window``. None where none were wanted.
            scaling: Factor of the attention scores.
            keep: How many to keep, 1 up to the number of tokens.
        """
        ...
