"""Chooses and fits the duration model of a skill from measured calls of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from lrtrace.statistics import percentile
from timely_llm_ros.calibration.robust_fit import LinearFit, fit_linear
from timely_llm_ros.skills import (
    MAX_VARIATION,
    SPREAD,
    ConstantDuration,
    EmpiricalDuration,
    LinearDuration,
    ReadingDuration,
)
from timely_llm_ros.skills.loading import MAX_RATIO, QUANTILES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lrtrace.call_samples import CallSample
    from timely_llm_ros.skills import DurationModel, Skill

MIN_CALLS = 10
"""A skill with fewer calls is left alone, unless the caller says otherwise."""

LEAST_CALLS = 5
"""The least that a caller may ask for: fewer calls say nothing about spread."""

MIN_VALUES = 3
"""A slope needs this many different amounts of its argument."""

MIN_RANGE = 1.5
"""The greatest of these amounts must be at least this many times the least."""

SIGNIFICANT = 3.0
"""A slope below this many standard errors explains nothing."""

RELEVANT = 0.05
"""A slope that moves the time by less than this share of its median explains nothing."""

MAX_CONSTANT_VARIATION = 0.25
"""Times that no argument explains and that vary more are kept as they were measured."""

MAX_CONSTANT_OUTLIERS = 0.1
"""With a larger share of outliers they are kept too: these are then no mishaps."""

MAX_LINEAR_OUTLIERS = 0.25
"""Share of outliers up to which a line is believed."""

MAX_KEPT = 200
"""An empirical model of more measured times keeps this many evenly spaced quantiles."""

DIGITS = 4
"""Significant digits of what is fitted."""

_LEAST_QUANTILE = 0.05


@dataclass(frozen=True, slots=True)
class SkillFit:
    """A fitted duration model and the evidence for it.

    Attributes:
        model: The model.
        calls: How many calls it was fitted to.
        outliers: How many of them were discounted.
        measured_s: Least, median and greatest measured time (s).
        error_before: Median of the absolute relative errors of the skill's earlier model.
        error: The same of this model.
        residuals: Quantiles of measured over expected time less 1, at ``QUANTILES``; outliers
            included.
        ranges: Least and greatest amount (SI) of each argument that the model counts with.
    """

    model: DurationModel
    calls: int
    outliers: int
    measured_s: tuple[float, float, float]
    error_before: float
    error: float
    residuals: tuple[float, ...]
    ranges: dict[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A skill whose duration stays as it is.

    Attributes:
        calls: How many calls were measured.
        reason: Why it was left alone.
    """

    calls: int
    reason: str


def fit_skill(
    skill: Skill, samples: Sequence[CallSample], *, min_calls: int = MIN_CALLS
) -> SkillFit | LeftAlone:
    """Fit a skill's duration to measured calls, whose order does not matter.

    The model is a line where arguments explain the time, a constant where none does and the time
    varies little, and else the measured times themselves. A line that the skill had before is kept
    where the new model fits worse.
    """
    calls = len(samples)
    if calls < min_calls:
        return LeftAlone(calls, f'{calls} calls: expected at least {min_calls}')
    if isinstance(skill.duration, ReadingDuration):
        return LeftAlone(calls, 'its time is that of a person who reads')
    ordered = sorted(samples, key=lambda sample: (sample.duration_s, sample.call.text))
    times_s = np.array([sample.duration_s for sample in ordered])
    amounts = _amounts(skill, ordered)
    ranges = {name: (float(min(values)), float(max(values))) for name, values in amounts.items()}
    counted = skill.duration.per if isinstance(skill.duration, LinearDuration) else {}
    names = [name for name, values in amounts.items() if _varied(values)]
    unvaried = [name for name in counted if name in amounts and name not in names]
    if unvaried:
        return LeftAlone(calls, f'{_values(unvaried[0], ranges)}: expected it to vary more')
    names, fit = _explaining(times_s, amounts, names)
    model = _model(times_s, names, fit)
    if names and isinstance(model, EmpiricalDuration):
        # Too many calls are off the line to believe in it: perhaps they are steady without.
        names, fit = _explaining(times_s, amounts, [])
        model = _model(times_s, names, fit)
    residuals = _residuals(model, ordered)
    error_before = median(map(abs, _residuals(skill.duration, ordered)))
    error = median(map(abs, residuals))
    if counted and error_before < error:
        return LeftAlone(
            calls,
            f'its earlier line is off by {100 * error_before:.1f} %, '
            f'a new model by {100 * error:.1f} %: the earlier one stays',
        )
    empirical = isinstance(model, EmpiricalDuration)
    return SkillFit(
        model=model,
        calls=calls,
        outliers=0 if empirical else int(np.sum(~fit.inliers)),
        measured_s=(float(times_s[0]), median(map(float, times_s)), float(times_s[-1])),
        error_before=error_before,
        error=error,
        residuals=tuple(percentile(residuals, share) for share in QUANTILES),
        ranges={} if empirical else {name: ranges[name] for name in names},
    )


def _residuals(model: DurationModel, samples: Sequence[CallSample]) -> list[float]:
    """Return measured over expected times less 1, bounded as in overlays."""
    return [
        min(sample.duration_s / expected_s if expected_s > 0 else MAX_RATIO, MAX_RATIO) - 1.0
        for sample in samples
        for expected_s in (model.expected_s(sample.call, sample.scene),)
    ]


def _amounts(skill: Skill, samples: Sequence[CallSample]) -> dict[str, NDArray[np.float64]]:
    """Return the amounts of each argument that every call has one of, of shape (n,)."""
    found = [sample.amounts for sample in samples]
    return {
        spec.name: np.array([amounts[spec.name] for amounts in found])
        for spec in skill.arguments
        if all(spec.name in amounts for amounts in found)
    }


def _varied(amounts: NDArray[np.float64]) -> bool:
    least, greatest = float(amounts.min()), float(amounts.max())
    different = len(np.unique(np.round(amounts, 9)))
    return different >= MIN_VALUES and greatest >= MIN_RANGE * least


def _values(name: str, ranges: dict[str, tuple[float, float]]) -> str:
    least, greatest = ranges[name]
    if least == greatest:
        return f'{name} was {least:g} in every call'
    return f'{name} was {least:g} to {greatest:g} only'


def _explaining(
    times_s: NDArray[np.float64], amounts: dict[str, NDArray[np.float64]], names: list[str]
) -> tuple[list[str], LinearFit]:
    """Return the arguments that explain the times, and the fit with them."""
    names = list(names)
    while True:
        columns = [amounts[name] for name in names if len(times_s) > len(names) + 1]
        names = names[: len(columns)]
        fit = fit_linear(times_s, np.column_stack(columns) if columns else times_s[:, None][:, :0])
        weak = [
            (slope / error if error > 0 else math.inf if slope > 0 else 0.0, name)
            for name, slope, error in zip(names, fit.per, fit.errors, strict=True)
            if slope <= SIGNIFICANT * error
            or slope * float(np.ptp(amounts[name])) < RELEVANT * float(np.median(times_s))
        ]
        if not weak:
            return names, fit
        # One at a time: two that go together may each look as if the other did all.
        names.remove(min(weak)[1])


def _model(times_s: NDArray[np.float64], names: list[str], fit: LinearFit) -> DurationModel:
    variation = _variation(fit)
    outliers = 1.0 - float(np.mean(fit.inliers))
    if names and outliers <= MAX_LINEAR_OUTLIERS and variation <= MAX_VARIATION:
        per = {name: rounded(float(slope)) for name, slope in zip(names, fit.per, strict=True)}
        return LinearDuration(rounded(fit.base_s), per, variation)
    if not names and outliers <= MAX_CONSTANT_OUTLIERS and variation <= MAX_CONSTANT_VARIATION:
        return ConstantDuration(rounded(fit.base_s), variation)
    kept = [float(time_s) for time_s in times_s]
    if len(kept) > MAX_KEPT:
        kept = [percentile(kept, index / (MAX_KEPT - 1)) for index in range(MAX_KEPT)]
    return EmpiricalDuration(tuple(map(rounded, kept)))


def _variation(fit: LinearFit) -> float:
    """Return a relative deviation by which at most one call in twenty beats the least time."""
    ratios = [1.0 + float(residual) for residual in fit.residuals[fit.inliers]]
    beaten_by_few = (1.0 - percentile(ratios, _LEAST_QUANTILE)) / SPREAD
    # Upwards, so that rounding does not raise the least time.
    return math.ceil(1e4 * max(fit.deviation, beaten_by_few)) / 1e4


def rounded(value: float) -> float:
    """Return a fitted value with as many digits as mean something."""
    return float(f'{value:.{DIGITS}g}')
