"""Trains TRAIL's probe: one for every layer, of which the best is kept (section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product, repeat
from typing import TYPE_CHECKING

import numpy as np
import torch

from timely_llm_ros.prediction.lengths import (
    EVERY,
    LengthBins,
    LengthFilter,
    ProbeSettings,
    RemainingLengthProbe,
)
from timely_llm_ros.training.rlp_training import least_class_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from timely_llm_ros.prediction.lengths import LengthDistribution

    States = Sequence[NDArray[np.float16]]
    Forecasts = Sequence[LengthDistribution]

SHARPNESSES = (2.8, 2.0, 1.4, 1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.0)
"""Sharpnesses to choose from on held-out plans; 0 hears the prompt alone."""

PROMPT_WEIGHTS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.1, 0.0)
"""Weights of prompts to choose from on held-out plans; 0 ignores the prompt."""

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
    """Mean absolute errors (tokens) over all tokens after which held-out plans still run.

    Attributes:
        single: Of single answers.
        refined: Of all answers up to a token together with what the prompt said.
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
    censored: Sequence[bool] = (),
    advance: Callable[[], None] = lambda: None,
) -> RemainingLengthProbe:
    """Train a probe, deterministically; call ``advance`` after every epoch.

    ``states`` are those of the layer, one array ``[tokens, width]`` per plan. Of plans that are
    ``censored`` it learns only that at least so much of them is left.
    """
    torch.set_num_threads(training.threads)
    bins = training.bins
    inputs = np.concatenate(states).astype(np.float32)
    labels = bins.index(np.concatenate([remaining_lengths(len(plan)) for plan in states]))
    cut = torch.tensor(np.repeat([*censored] or [False] * len(states), [*map(len, states)]))
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
            loss = least_class_loss(network(tokens[rows]), wanted[rows], cut[rows])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
        advance()
    # The first layer takes over the scaling of its inputs.
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
) -> ProbeErrors:
    """Return how wrong a probe is about these plans' remaining lengths.

    Args:
        probe: The probe.
        states: Of its layer, one array ``[tokens, width]`` per plan.
        forecasts: What their prompts say; None for nothing.
    """
    bins, lengths = probe.settings.bins, probe.filter
    single, refined = [], []
    for plan, forecast in zip(states, forecasts or repeat(None, len(states)), strict=True):
        # At its last token a plan has ended: nobody asks what is left.
        left, ages = remaining_lengths(len(plan))[:-1], np.arange(1, len(plan))
        answers, shares = probe.follow(plan.astype(np.float32), EVERY, forecast=forecast)
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
    *,
    every: int = EVERY,
) -> RemainingLengthProbe:
    """Return the probe with the reading of its answers that errs least on these plans.

    It errs least on average, because policies rank by the mean. The probe alone and the prompt
    alone are tried too, so both together are no worse than either on these plans.

    Args:
        probe: The probe.
        states: Of its layer, one array per plan that it did not learn from.
        forecasts: What their prompts say; the surer they are, the less answers count.
        every: Tokens between two answers that count.
    """
    weights = (1.0,) if forecasts is None else PROMPT_WEIGHTS
    readings = [
        replace(probe.settings, sharpness=sharpness, divides=divides, prompt_weight=weight)
        for divides, weight, sharpness in product((False, True), weights, SHARPNESSES)
    ]
    filters = {
        divides: LengthFilter(
            probe.settings.bins, probe.weights['frequencies'], 1.0, divides=divides
        )
        for divides in (False, True)
    }
    errors = np.zeros(len(readings))
    for plan, forecast in zip(states, forecasts or repeat(None, len(states)), strict=True):
        answers = probe.answer(plan[:-1:every].astype(np.float32))
        errors += _reading_errors(filters, readings, answers, len(plan), forecast, every)
    best = readings[int(errors.argmin())]
    return RemainingLengthProbe(best, probe.weights, probe.about)


def _reading_errors(
    filters: Mapping[bool, LengthFilter],
    readings: Sequence[ProbeSettings],
    answers: NDArray[np.float32],
    length: int,
    forecast: LengthDistribution | None,
    every: int,
) -> NDArray[np.float64]:
    """Return the sum of a plan's errors with each reading.

    The exponents of the ``filters`` are 1. In logarithms exponents are factors, so what the answers
    say is added up once for all readings.
    """
    ages, sums = np.arange(1, length), {}
    for divides, lengths in filters.items():
        worth = lengths.likelihood(ages[::every], answers)
        said = np.log(np.where(worth > 0, worth, 1.0)).cumsum(axis=0)
        sums[divides] = np.repeat(said, every, axis=0)[: len(ages)]
    over = lengths.lengths <= ages[:, None]
    start = np.log(lengths.start)
    prompt = 0.0 if forecast is None else np.log(lengths.prior(forecast)) - start
    errors = []
    for it in readings:
        known = start + it.prompt_weight * prompt + it.sharpness * sums[it.divides]
        known[over] = -np.inf
        shares = np.exp(known - known.max(axis=1, keepdims=True))
        mean = shares @ lengths.lengths / shares.sum(axis=1)
        errors.append(np.abs(mean - length).sum())
    return np.array(errors)
