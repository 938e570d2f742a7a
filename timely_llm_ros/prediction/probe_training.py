"""Trains TRAIL's probe: one for every layer, of which the best is kept (section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional

from timely_llm_ros.prediction.probe import EVERY, ProbeSettings, RemainingLengthProbe
from timely_llm_ros.prediction.remaining_length import LengthBins

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    States = Sequence[NDArray[np.float16]]

SHARPNESSES = (1.0, 0.5, 0.25)
"""Of which the one under which held-out plans are most probable is taken."""


BINS = LengthBins(10, 80)
"""Ten bins, as TRAIL has them, over the lengths of the embedded planner's plans."""


@dataclass(frozen=True, slots=True)
class ProbeTraining:
    """How a probe is trained.

    Attributes:
        bins: Of remaining length.
        hidden: Width of its inner layer; TRAIL's is 512 for states of 4096 numbers.
        epochs: Passes over all tokens.
        batch: Tokens per step.
        rate: Highest learning rate; it falls along a cosine.
        seed: Of weights and order.
        threads: On the CPU.
    """

    bins: LengthBins = BINS
    hidden: int = 128
    epochs: int = 6
    batch: int = 256
    rate: float = 3e-3
    seed: int = 0
    threads: int = 1


@dataclass(frozen=True, slots=True)
class ProbeErrors:
    """Mean errors over all tokens of held-out plans.

    Attributes:
        single: Mean absolute error of single answers (tokens).
        smoothed: The same after smoothing.
        score: Mean logarithm of the smoothed probability of the right bin.
    """

    single: float
    smoothed: float
    score: float


def remaining_lengths(length: int) -> NDArray[np.int64]:
    """Return what is left after each token of a plan of that length, its end included."""
    return np.arange(length - 1, -1, -1)


@torch.enable_grad()
def train_probe(
    training: ProbeTraining,
    layer: int,
    states: States,
    *,
    advance: Callable[[], None] = lambda: None,
) -> RemainingLengthProbe:
    """Train a probe, deterministically.

    Args:
        training: How.
        layer: Whose states these are.
        states: One array ``[tokens, width]`` per plan.
        advance: Called after every epoch.
    """
    torch.set_num_threads(training.threads)
    bins = training.bins
    inputs = np.concatenate(states).astype(np.float32)
    labels = bins.index(np.concatenate([remaining_lengths(len(plan)) for plan in states]))
    mean, spread = inputs.mean(axis=0), inputs.std(axis=0) + 1e-6
    tokens, wanted = torch.tensor((inputs - mean) / spread), torch.tensor(labels)
    generator = torch.Generator().manual_seed(training.seed)
    torch.manual_seed(training.seed)
    inner = torch.nn.Linear(inputs.shape[1], training.hidden)
    outer = torch.nn.Linear(training.hidden, bins.count)
    network = torch.nn.Sequential(inner, torch.nn.ReLU(), outer)
    optimiser = torch.optim.AdamW(network.parameters(), lr=training.rate)
    total = training.epochs * -(-len(tokens) // training.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, total)
    for _ in range(training.epochs):
        order = torch.randperm(len(tokens), generator=generator)
        for start in range(0, len(order), training.batch):
            rows = order[start : start + training.batch]
            loss = functional.cross_entropy(network(tokens[rows]), wanted[rows])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
        advance()
    # Scaling of the inputs becomes part of the first layer.
    scaled = inner.weight.detach().numpy() / spread
    counts = np.bincount(labels, minlength=bins.count) + 1.0
    weights = {
        'inner': scaled,
        'inner_bias': inner.bias.detach().numpy() - scaled @ mean,
        'outer': outer.weight.detach().numpy(),
        'outer_bias': outer.bias.detach().numpy(),
        'frequencies': counts / counts.sum(),
    }
    as_singles = {name: it.astype(np.float32) for name, it in weights.items()}
    return RemainingLengthProbe(ProbeSettings(layer, bins), as_singles, {})


def probe_errors(probe: RemainingLengthProbe, states: States, every: int = EVERY) -> ProbeErrors:
    """Return how wrong a probe is about these plans' remaining lengths."""
    bins = probe.settings.bins
    single, smoothed, scores = [], [], []
    for plan in states:
        left = remaining_lengths(len(plan))
        answers, posteriors = probe.follow(plan.astype(np.float32), every)
        single.append(np.abs(bins.expected(answers) - left))
        smoothed.append(np.abs(bins.expected(posteriors) - left))
        right = posteriors[np.arange(len(left)), bins.index(left)]
        scores.append(np.log(np.maximum(right, 1e-12)))
    return ProbeErrors(
        float(np.concatenate(single).mean()),
        float(np.concatenate(smoothed).mean()),
        float(np.concatenate(scores).mean()),
    )


def calibrated(
    probe: RemainingLengthProbe, states: States, every: int = EVERY
) -> RemainingLengthProbe:
    """Return the probe with the reading of its answers under which these plans are likeliest."""
    found = [
        RemainingLengthProbe(
            replace(probe.settings, sharpness=sharpness, divides=divides),
            probe.weights,
            probe.about,
        )
        for sharpness, divides in product(SHARPNESSES, (False, True))
    ]
    return max(found, key=lambda one: probe_errors(one, states, every).score)
