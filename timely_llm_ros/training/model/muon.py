"""Muon: momentum whose matrices are made orthogonal before they are applied.

K. Jordan et al., 2024. Done here for stacks of matrices at once, and split between the
data-parallel processes: each makes its share orthogonal, then all exchange the results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn, optim
from torch import distributed as dist

if TYPE_CHECKING:
    from collections.abc import Sequence

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
_MOMENTUM = 0.95
"""Decay of the running gradient (Nesterov)."""
_WEIGHT_DECAY = 0.1
"""Decay per step and unit of learning rate."""


def orthogonalised(matrices: Tensor) -> Tensor:
    """Return ``[n, rows, columns]`` with all singular values brought near one (bfloat16 inside)."""
    a, b, c = _COEFFICIENTS
    values = matrices.bfloat16()
    tall = values.shape[-2] > values.shape[-1]
    if tall:
        values = values.mT
    values = values / (values.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(_ITERATIONS):
        gram = values @ values.mT
        values = a * values + (b * gram + c * gram @ gram) @ values
    result: Tensor = values.mT if tall else values
    return result.to(matrices.dtype)


class Muon:
    """Updates stacks of matrices, ``[layer, rows, columns]``, from their gradients.

    The gradients must be equal on all processes.
    """

    def __init__(self, stacks: Sequence[nn.Parameter]) -> None:
        self._stacks = list(stacks)
        self._running = [torch.zeros_like(stack) for stack in self._stacks]
        self._owners = self._share_out()

    def _share_out(self) -> list[int]:
        """Return which process computes each stack: the largest first, to the least loaded."""
        size = dist.get_world_size() if dist.is_initialized() else 1
        load = [0] * size
        owners = [0] * len(self._stacks)
        cost = [s.shape[0] * min(s.shape[1:]) * s.numel() for s in self._stacks]
        for index in sorted(range(len(cost)), key=lambda index: -cost[index]):
            owners[index] = load.index(min(load))
            load[owners[index]] += cost[index]
        return owners

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Apply one update; collective: every process must call it."""
        rank = dist.get_rank() if dist.is_initialized() else 0
        updates = []
        for stack, running, owner in zip(self._stacks, self._running, self._owners, strict=True):
            gradient = stack.grad
            if gradient is None:
                raise RuntimeError('a matrix without a gradient: expected one for every parameter')
            running.lerp_(gradient, 1 - _MOMENTUM)
            if owner == rank:
                updates.append(orthogonalised(gradient.lerp(running, _MOMENTUM)))
            else:
                updates.append(torch.zeros_like(stack))
        if dist.is_initialized():
            share_sum(updates)
        for stack, update in zip(self._stacks, updates, strict=True):
            stack.mul_(1 - learning_rate * _WEIGHT_DECAY)
            rows, columns = stack.shape[1:]
            stack.sub_(update, alpha=learning_rate * max(1.0, rows / columns) ** 0.5)


def share_sum(tensors: Sequence[Tensor]) -> None:
    """Replace each tensor by its sum over all processes, in one exchange."""
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    dist.all_reduce(flat)
    start = 0
    for tensor in tensors:
        tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
        start += tensor.numel()


def adamw(parameters: Sequence[nn.Parameter], learning_rate: float) -> optim.AdamW:
    """Return the optimiser of everything that is not a matrix."""
    return optim.AdamW(parameters, lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
