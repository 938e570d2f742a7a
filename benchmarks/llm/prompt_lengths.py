"""How long answers will be by their prompts alone, read in as many ways as are known here.

All learn from the same answers as the probe; what they leave open is chosen on the same others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.trail import left_at_most, middle, running
from timely_llm_ros.training import remaining_lengths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from timely_llm_ros.prediction.lengths import (
        LengthDistribution,
        LengthFilter,
        RemainingLengthProbe,
    )
    from timely_llm_ros.training import LengthSample

    Floats = NDArray[np.float64]

PENALTIES = tuple(10.0**power for power in range(1, 7))
"""Of the regression's squared weights, to choose from."""


def left_errors(length: int, whole: float | Floats) -> Floats:
    """Return errors of what is left after each token (tokens), ``[length - 1]``.

    ``whole`` is how long the answer was said to be, once or at each token. What is left is at
    least nothing.
    """
    left = remaining_lengths(length)[:-1]
    found: Floats = np.abs(np.maximum(whole - np.arange(1, length), 0) - left)
    return found


def mean_error(lengths: Sequence[int], whole: Sequence[float] | Floats) -> float:
    """Return the mean of :func:`left_errors` over all tokens of answers, each said once."""
    pairs = zip(lengths, whole, strict=True)
    return float(np.concatenate([left_errors(length, said) for length, said in pairs]).mean())


def prompt_readings(
    learned: Sequence[LengthSample],
    chosen: Sequence[LengthSample],
    asked: Sequence[LengthSample],
    forecasts: Sequence[LengthDistribution],
    layer: int,
    probe: RemainingLengthProbe,
) -> dict[str, Floats]:
    """Return how long the ``asked`` answers are said to be (tokens), ``[answers]``, by the way.

    Args:
        learned: Answers to learn from.
        chosen: Others to choose by.
        asked: Those that are asked for; only their prompts and forms count, and the states from
            which first tokens were drawn, which have read nothing else.
        forecasts: What TimeBill's predictor says of ``asked``.
        layer: Place of the probe's layer among the states.
        probe: TRAIL's probe.
    """
    lengths = np.array([sample.length for sample in learned], np.float64)
    forms = by_form(learned)
    first = np.stack([sample.states[0, layer] for sample in asked]).astype(np.float32)
    bins = probe.settings.bins
    return {
        'the mean of all': np.full(len(asked), lengths.mean()),
        'the median of all': np.full(len(asked), np.median(lengths)),
        'the mean of its form': np.array([forms[sample.kind].mean() for sample in asked]),
        'the median of its form': np.array([np.median(forms[sample.kind]) for sample in asked]),
        "TimeBill's predictor": np.array([said.mean for said in forecasts]),
        "TimeBill's predictor, its median": np.array([middle(said) for said in forecasts]),
        "a regression on the prompt's state": state_regression(learned, chosen, asked),
        "the probe on the prompt's state": 1 + bins.expected(probe.answer(first)),
    }


def by_form(samples: Sequence[LengthSample]) -> dict[int, Floats]:
    """Return the lengths of answers by the form of their questions."""
    forms = sorted({sample.kind for sample in samples})
    return {
        form: np.array([it.length for it in samples if it.kind == form], np.float64)
        for form in forms
    }


def state_regression(
    learned: Sequence[LengthSample], chosen: Sequence[LengthSample], asked: Sequence[LengthSample]
) -> Floats:
    """Return lengths (tokens) by a ridge regression of their logarithm on the prompt's state.

    Layer and penalty are those that err least about ``chosen``.
    """
    lengths = np.log([sample.length for sample in learned])
    centre = lengths.mean()
    truths = [sample.length for sample in chosen]
    best, found = np.inf, np.zeros(len(asked))
    for layer in range(learned[0].states.shape[1]):
        rows, tried, wanted = (
            np.stack([sample.states[0, layer] for sample in samples]).astype(np.float64)
            for samples in (learned, chosen, asked)
        )
        mean, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-6
        rows, tried, wanted = ((it - mean) / spread for it in (rows, tried, wanted))
        # There are fewer answers than numbers in a state, so it is solved for the answers.
        alike = rows @ rows.T
        for penalty in PENALTIES:
            shares = np.linalg.solve(alike + penalty * np.eye(len(rows)), lengths - centre)
            error = mean_error(truths, np.exp(centre + tried @ rows.T @ shares))
            if error < best:
                best, found = error, np.exp(centre + wanted @ rows.T @ shares)
    return found


def still_running(
    length: int, said: LengthDistribution, alike: Floats, lengths: LengthFilter
) -> dict[str, Floats]:
    """Return how long an answer is said to be after each of its tokens (tokens), ``[length - 1]``.

    Only the prompt is known, and that the answer still runs: the strongest form of predictors that
    read no state, with which the paper does not compare.

    Args:
        length: Of the answer.
        said: What TimeBill's predictor says.
        alike: Lengths of answers of the same form.
        lengths: Which lengths there are.
    """
    ages = np.arange(1, length)
    rows = lengths.running(np.tile(lengths.prior(said), (len(ages), 1)), ages)
    return {
        "TimeBill's predictor": ages + lengths.left(rows, ages),
        "TimeBill's predictor, its median": ages + left_at_most(rows, ages, 0.5),
        'the median of its form': np.array([running(alike, int(age)) for age in ages]),
    }
