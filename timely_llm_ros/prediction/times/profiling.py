"""Plans measurements of an engine's times, has them made and fits a model to them.

Sizes of a grid are fitted; sizes between them are held out and say how good the fit is (TimeBill,
section 6.3, figure 5). A :class:`Stopwatch` does the timing, so nothing here knows of a model.
"""

from __future__ import annotations

import itertools
import random
import statistics
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.times.execution_time import (
    DecodeCoefficients,
    ExecutionTimeModel,
    Margin,
)
from timely_llm_ros.prediction.times.fitting import (
    coverage_factor,
    fit_decode,
    fit_prefill,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

COVERAGES = (0.9, 0.95, 0.99)
"""Margins that a profile has, as far as its measurements suffice."""

BRIEF_TOKENS = 64
"""Most tokens of a prompt that a brief plan has computed."""


class Stopwatch(Protocol):
    """Runs an engine's work and says how long it took."""

    def prefill_s(self, tokens: int, cached: int) -> float:
        """Compute a prompt of ``tokens``, of which the first ``cached`` are there (s)."""
        ...

    def steps_s(self, batch: int, kv_tokens: int) -> Sequence[float]:
        """Decode steps of ``batch`` generations with ``kv_tokens`` of context each (s, each)."""
        ...


@dataclass(frozen=True, slots=True)
class PrefillPoint:
    """A prefill to measure: ``tokens`` of which ``cached`` are there; not fitted if held out."""

    tokens: int
    cached: int = 0
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class StepPoint:
    """A decoding step to measure: ``kv_tokens`` for each of ``batch``; not fitted if held out."""

    batch: int
    kv_tokens: int
    held_out: bool = False


Point = PrefillPoint | StepPoint


@dataclass(frozen=True, slots=True)
class ProfilePlan:
    """What to measure.

    Args:
        prompt_tokens: Sizes of prompts to fit, at least three.
        kv_tokens: Sizes of contexts to fit, at least two.
        batches: Generations in a step, at least one.
        repeats: Rounds; each measures every prompt once.
        step_visits: How often each round measures every step: steps are short, so more of them
            cost little and make their medians steadier.
        computed_tokens: Most tokens of a prompt that are computed; those before them are cached. 0
            for no such bound.
        warms_up: Whether a round goes before that is not timed.

    Raises:
        ConfigurationError: Too few of something, or less than 1.
    """

    prompt_tokens: tuple[int, ...]
    kv_tokens: tuple[int, ...]
    batches: tuple[int, ...]
    repeats: int
    step_visits: int = 1
    computed_tokens: int = 0
    warms_up: bool = True

    def __post_init__(self) -> None:
        for name, values, least in (
            ('prompt sizes', self.prompt_tokens, 3),
            ('context sizes', self.kv_tokens, 2),
            ('batch sizes', self.batches, 1),
        ):
            if len(set(values)) < least or min(values) < 1:
                raise ConfigurationError(
                    f'{name} {sorted(values)}: expected at least {least} different ones, each at '
                    'least 1'
                )
        for name, value, least in (
            ('repeats', self.repeats, 1),
            ('step visits', self.step_visits, 1),
            ('computed tokens', self.computed_tokens, 0),
        ):
            if value < least:
                raise ConfigurationError(f'{value} {name}: expected at least {least}')

    @property
    def points(self) -> list[Point]:
        """Everything to measure in a round.

        Held out are a size between each two neighbours, and the largest prompts half cached.
        """
        prompts, contexts = sorted(set(self.prompt_tokens)), sorted(set(self.kv_tokens))
        points: list[Point] = [PrefillPoint(tokens, self._cached(tokens)) for tokens in prompts]
        points += [
            PrefillPoint(tokens, self._cached(tokens), held_out=True)
            for tokens in _between(prompts)
        ]
        points += [
            PrefillPoint(tokens, max(tokens // 2, self._cached(tokens)), held_out=True)
            for tokens in prompts[-2:]
        ]
        for batch in sorted(set(self.batches)):
            points += [StepPoint(batch, tokens) for tokens in contexts]
            points += [StepPoint(batch, tokens, held_out=True) for tokens in _between(contexts)]
        return points

    @property
    def visits(self) -> int:
        """How many times a point is measured, the first untimed round included."""
        return len(self.round) * (self.repeats + self.warms_up)

    @property
    def round(self) -> list[Point]:
        """What a round visits."""
        return [
            point
            for point in self.points
            for _ in range(self.step_visits if isinstance(point, StepPoint) else 1)
        ]

    def brief(self) -> ProfilePlan:
        """Return a plan for a slow model: as long contexts, of which little is computed.

        Long prompts are nearly all cached, so that attention over them is timed and not their
        computation. The largest contexts of steps are half as large, and no round only warms up: it
        would make little difference to steps that long.
        """
        longest, contexts = max(self.prompt_tokens), sorted(set(self.kv_tokens))
        few = BRIEF_TOKENS // 4, BRIEF_TOKENS, longest
        return replace(
            self,
            prompt_tokens=few if longest > BRIEF_TOKENS else self.prompt_tokens,
            kv_tokens=(contexts[0], max(contexts[0] + 1, contexts[-1] // 2)),
            computed_tokens=BRIEF_TOKENS,
            warms_up=False,
        )

    def _cached(self, tokens: int) -> int:
        return max(0, tokens - self.computed_tokens) if self.computed_tokens else 0


def _between(sizes: Sequence[int]) -> list[int]:
    """Return a size in the middle, by ratio, of each two neighbours that are not adjacent."""
    found = []
    for low, high in itertools.pairwise(sizes):
        middle = round((low * high) ** 0.5)
        if low < middle < high:
            found.append(middle)
    return found


Timings = dict[Point, list[float]]
"""Single times (s) of each point."""


def expected_s(plan: ProfilePlan, stopwatch: Stopwatch, *, steps: int) -> float:
    """Return about how long measuring takes (s), from two short prompts and a few steps.

    Args:
        plan: What to measure.
        stopwatch: Times the model.
        steps: Steps that the plan's own stopwatch runs for each measurement of steps.
    """
    contexts = sorted(set(plan.kv_tokens))
    many = min(BRIEF_TOKENS, max(plan.prompt_tokens))
    few = max(1, many // 4)
    few_s, many_s = stopwatch.prefill_s(few, 0), stopwatch.prefill_s(many, 0)
    token_s = max(0.0, many_s - few_s) / max(1, many - few)
    step_s = {
        batch: statistics.median(stopwatch.steps_s(batch, contexts[len(contexts) // 2]))
        for batch in set(plan.batches)
    }
    round_s = sum(
        few_s + token_s * (point.tokens - point.cached)
        if isinstance(point, PrefillPoint)
        else steps * step_s[point.batch]
        for point in plan.round
    )
    return round_s * (plan.repeats + plan.warms_up)


def measure(
    plan: ProfilePlan,
    stopwatch: Stopwatch,
    *,
    advance: Callable[[], None] = lambda: None,
    enough: Callable[[], bool] = lambda: False,
) -> Timings:
    """Time everything, round by round in ever new order, so that slow spells spread evenly.

    ``advance`` is called after each point. Once ``enough`` says so after a timed round, no other
    begins.
    """
    rng = random.Random(0)
    points = plan.round
    timings: Timings = defaultdict(list)
    for number in range(0 if plan.warms_up else 1, plan.repeats + 1):
        if number > 1 and enough():
            break
        rng.shuffle(points)
        for point in points:
            if isinstance(point, PrefillPoint):
                times_s: Sequence[float] = [stopwatch.prefill_s(point.tokens, point.cached)]
            else:
                times_s = stopwatch.steps_s(point.batch, point.kv_tokens)
            # The first round makes memory, caches and clocks ready.
            if number:
                timings[point].extend(times_s)
            advance()
    return timings


@dataclass(frozen=True, slots=True)
class RequestOverhead:
    """What whole requests take longer than forward passes: text, grammar, the engine's account.

    Attributes:
        prompt_s: For each prompt (s).
        steps_s: For each step (s), by how many generations share it, ascending.
        evicting_token_s: For each token of a prompt, where something is evicted of it (s).
    """

    prompt_s: float
    steps_s: tuple[tuple[int, float], ...]
    evicting_token_s: float = 0.0

    def added_to(self, times: ExecutionTimeModel) -> ExecutionTimeModel:
        """Return the times of requests: constants grow, margins and slopes stay.

        Between two batch sizes the overhead is interpolated, beyond them it is the nearest one's.
        """
        batches = [batch for batch, _ in self.steps_s]
        added = [step_s for _, step_s in self.steps_s]
        return replace(
            times,
            prefill_s=times.prefill_s + self.prompt_s,
            decode=tuple(
                replace(entry, step_s=entry.step_s + float(np.interp(entry.batch, batches, added)))
                for entry in times.decode
            ),
            evicting_token_s=self.evicting_token_s,
        )


@dataclass(frozen=True, slots=True)
class SizeErrors:
    """How far a fit is off for prompts, or for steps of one batch size, as percentages of medians.

    Attributes:
        fitted_mape_pct: Mean absolute error on the sizes that were fitted.
        held_out_mape_pct: The same on those that were not; None where there were none.
        worst_pct: The largest error of any size; negative where the fit is too short.
    """

    fitted_mape_pct: float
    held_out_mape_pct: float | None
    worst_pct: float


@dataclass(frozen=True, slots=True)
class ProfileErrors:
    """How far a fit is off: for prompts, and for steps by batch size."""

    prefill: SizeErrors
    steps: Mapping[int, SizeErrors]


def fit_profile(timings: Mapping[Point, Sequence[float]]) -> ExecutionTimeModel:
    """Fit medians; margins are those of the single times that were held out.

    Raises:
        ConfigurationError: Timings that cannot be fitted.
    """
    prompts = [p for p in timings if isinstance(p, PrefillPoint) and not p.held_out]
    a, b, c = fit_prefill(
        [point.tokens for point in prompts],
        [statistics.median(timings[point]) for point in prompts],
        [point.cached for point in prompts],
    )
    decode = []
    for batch in sorted({p.batch for p in timings if isinstance(p, StepPoint)}):
        steps = [
            p for p in timings if isinstance(p, StepPoint) and p.batch == batch and not p.held_out
        ]
        p, q = fit_decode(
            [batch * point.kv_tokens for point in steps],
            [statistics.median(timings[point]) for point in steps],
        )
        decode.append(DecodeCoefficients(batch, p, q))
    model = ExecutionTimeModel(a, b, c, tuple(decode))
    return replace(model, margins=_margins(model, timings))


def _margins(
    model: ExecutionTimeModel, timings: Mapping[Point, Sequence[float]]
) -> tuple[Margin, ...]:
    prefills = _pairs(model, timings, PrefillPoint)
    steps = _pairs(model, timings, StepPoint)
    margins = []
    for coverage in COVERAGES:
        try:
            factors = [coverage_factor(*pairs, coverage) for pairs in (prefills, steps)]
        except ConfigurationError:
            break  # Not enough measurements for this one, so for none that is higher.
        margins.append(Margin(coverage, *factors))
    return tuple(margins)


def _pairs(
    model: ExecutionTimeModel,
    timings: Mapping[Point, Sequence[float]],
    kind: type[PrefillPoint] | type[StepPoint],
) -> tuple[list[float], list[float]]:
    """Return the single held-out times of a kind and what was predicted for each."""
    measured: list[float] = []
    predicted: list[float] = []
    for point, times_s in timings.items():
        if isinstance(point, kind) and point.held_out:
            measured += times_s
            predicted += [predict_s(model, point)] * len(times_s)
    return measured, predicted


def predict_s(model: ExecutionTimeModel, point: Point) -> float:
    """Return how long a model says that a point takes (s)."""
    if isinstance(point, PrefillPoint):
        return model.at(1).prefill_time_s(point.tokens, point.cached)
    return model.at(point.batch).step_time_s(point.batch * point.kv_tokens)


def profile_errors(
    model: ExecutionTimeModel, timings: Mapping[Point, Sequence[float]]
) -> ProfileErrors:
    """Return how far a fitted model is off.

    Raises:
        ConfigurationError: There are no timings of prompts that were fitted.
    """
    prompts = [point for point in timings if isinstance(point, PrefillPoint)]
    steps = [point for point in timings if isinstance(point, StepPoint)]
    batches = sorted({point.batch for point in steps})
    return ProfileErrors(
        _size_errors(model, timings, prompts),
        {
            batch: _size_errors(model, timings, [p for p in steps if p.batch == batch])
            for batch in batches
        },
    )


def _size_errors(
    model: ExecutionTimeModel, timings: Mapping[Point, Sequence[float]], points: Sequence[Point]
) -> SizeErrors:
    fitted: list[float] = []
    held_out: list[float] = []
    for point in points:
        error = predict_s(model, point) / statistics.median(timings[point]) - 1
        (held_out if point.held_out else fitted).append(100 * error)
    if not fitted:
        raise ConfigurationError('no timings of sizes that are fitted: expected some')
    return SizeErrors(
        statistics.fmean(map(abs, fitted)),
        statistics.fmean(map(abs, held_out)) if held_out else None,
        max([*fitted, *held_out], key=abs),
    )
