"""Trains TRAIL's probe: one for every layer, of which the best is kept (section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product, repeat
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional

from timely_llm_ros.prediction.probe import EVERY, ProbeSettings, RemainingLengthProbe
from timely_llm_ros.prediction.remaining_length import LengthBins

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from timely_llm_ros.prediction.response_length import LengthDistribution

    States = Sequence[NDArray[np.float16]]
    Forecasts = Sequence[LengthDistribution]

SHARPNESSES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.0)
"""Of which the one that is nearest to held-out plans is taken; 0 hears the prompt alone."""


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
    """Mean errors over all tokens of held-out plans after which they still run.

    Attributes:
        single: Mean absolute error of single answers (tokens).
        refined: The same of all answers up to there together, and what the prompt said.
    """

    single: float
    refined: float


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


def probe_errors(
    probe: RemainingLengthProbe,
    states: States,
    forecasts: Forecasts | None = None,
    every: int = EVERY,
) -> ProbeErrors:
    """Return how wrong a probe is about these plans' remaining lengths.

    Args:
        probe: The probe.
        states: Of its layer, one array ``[tokens, width]`` per plan.
        forecasts: What their prompts say; None for nothing.
        every: Tokens between two answers.
    """
    bins, lengths = probe.settings.bins, probe.filter
    single, refined = [], []
    for plan, forecast in zip(states, forecasts or repeat(None, len(states)), strict=True):
        # At its last token a plan has ended, and nobody asks what is left of it.
        left, ages = remaining_lengths(len(plan))[:-1], np.arange(1, len(plan))
        answers, shares = probe.follow(plan.astype(np.float32), every, forecast=forecast)
        single.append(np.abs(bins.expected(answers[:-1]) - left))
        refined.append(np.abs(lengths.left(shares[:-1], ages) - left))
    return ProbeErrors(
        float(np.concatenate(single).mean()),
        float(np.concatenate(refined).mean()),
    )


def calibrated(
    probe: RemainingLengthProbe,
    states: States,
    forecasts: Forecasts | None = None,
    every: int = EVERY,
) -> RemainingLengthProbe:
    """Return the probe with the reading of its answers that is nearest to these plans' lengths.

    Nearest on average, because policies rank by the mean. The likeliest reading is somewhat less
    sure.

    Args:
        probe: The probe.
        states: Of its layer, one array per plan that it did not learn from.
        forecasts: What their prompts say; the surer they are, the less answers count.
        every: Tokens between two answers.
    """
    found = [
        RemainingLengthProbe(
            replace(probe.settings, sharpness=sharpness, divides=divides),
            probe.weights,
            probe.about,
        )
        for sharpness, divides in product(SHARPNESSES, (False, True))
    ]
    return min(found, key=lambda one: probe_errors(one, states, forecasts, every).refined)
