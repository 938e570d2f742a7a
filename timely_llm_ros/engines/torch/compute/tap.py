"""Looks at hidden states while a model generates, without changing what it computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class LayerTap:
    """Keeps the states that chosen layers had in the latest step: references, no copies.

    Layer 0 is the embedding, layer n the output of the n-th of ``count`` decoder layers, before any
    final norm. ``layers`` are ascending.

    Raises:
        ConfigurationError: There is no such layer.
    """

    def __init__(self, layers: Sequence[int], count: int) -> None:
        if (
            not layers
            or list(layers) != sorted(set(layers))
            or not 0 <= layers[0] <= layers[-1] <= count
        ):
            raise ConfigurationError(
                f'layers {list(layers)!r}: expected ascending numbers of 0 to {count}'
            )
        self._wanted = frozenset(layers)
        self._states: dict[int, torch.Tensor] = {}
        # A model's states are all of one kind; to ask each costs as much as to read it.
        self._readable: bool | None = None

    def see(self, layer: int, hidden: torch.Tensor) -> None:
        """Take a layer's states, ``[tokens, width]``; nothing may write into them later."""
        if layer in self._wanted:
            self._states[layer] = hidden

    def take(self, tokens: list[int]) -> torch.Tensor:
        """Return the states of these tokens of the latest step, ``[layers, tokens, width]``."""
        states = [self._states[layer] for layer in sorted(self._states)]
        return torch.stack([state[tokens] for state in states])

    def rows(self, tokens: list[int]) -> NDArray[np.float32]:
        """Return the same of the lowest layer alone, ``[tokens, width]``.

        States in the CPU's memory are read there by numpy, because torch's own indexing costs more
        than the probe that asks.
        """
        state = self._states[min(self._states)]
        if self._readable is None:
            self._readable = state.device.type == 'cpu' and state.dtype == torch.float32
        if self._readable:
            found: NDArray[np.float32] = state.numpy().take(tokens, axis=0)
            return found
        copied: NDArray[np.float32] = state[tokens].float().cpu().numpy()
        return copied


def hook(model: Any, tap: LayerTap) -> None:
    """Show a transformers model's states to a tap.

    Raises:
        ConfigurationError: Its layers are not where decoders have them.
    """
    found = (getattr(model.base_model, name, None) for name in ('layers', 'h', 'blocks'))
    layers: Any = next((it for it in found if it is not None), None)
    if layers is None:
        raise ConfigurationError(
            f'{type(model).__name__}: no list of layers; expected a decoder-only model of '
            'transformers'
        )

    def before(_module: Any, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        hidden = inputs[0] if inputs else keywords['hidden_states']
        tap.see(0, hidden[0])

    def after(layer: int) -> Any:
        def see(_module: Any, _inputs: Any, output: Any) -> None:
            hidden = output[0] if isinstance(output, tuple) else output
            tap.see(layer, hidden[0])

        return see

    layers[0].register_forward_pre_hook(before, with_kwargs=True)
    for number, layer in enumerate(layers, 1):
        layer.register_forward_hook(after(number))
