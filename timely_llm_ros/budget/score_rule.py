"""Evicts for the score that is to be expected, not for the deadline alone.

TimeBill (eq. 10) takes the smallest share of a prompt's KV with which the worst case ends in time,
because evicting more makes a response worse. It never weighs the one against the other: a plan that
ends in time with a chance of 19 in 20 gives up its KV for the remaining chance, and one that cannot
end in time gives up the most for nothing. Here every share is worth the quality of what then ends
in time, times the chance that it does. Responses to prompts that lost much are worse, and shorter:
half an answer in time may be worth more than a whole one that is late.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.budget.budgeter import MAX_EVICTED, retained_tokens
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from timely_llm_ros.prediction.lengths import LengthForecast
    from timely_llm_ros.prediction.times import TimeCoefficients

    Floats = NDArray[np.float64]

SHARES = tuple(n / 20 for n in range(20))
"""Shares to evict that are weighed, and the largest one allowed."""

CASES = 20
"""Equally likely lengths that a forecast is taken for."""

ENDED = 2.0
"""What any answer in time is worth beside its F1: without one the robot stops. With a lower weight
fewer responses end in time than if the most were always evicted; with a higher one they are worse
for nothing. ``benchmarks/timebill/timebill.py`` draws both over this weight."""

MOST_PERIODS = 16
"""Periods after which being late costs so much that no more are counted."""

LEAST_WORTH = 1e-6
"""What is not worth more than this keeps everything: it cannot end in time."""

LEAST_SPREAD = 0.01
"""Relative deviation of times below which nothing is measured."""


Cases = tuple[tuple[float, float], ...]
"""Equally likely ``(length, quality)``: the length beside that with everything kept."""


@dataclass(frozen=True, slots=True)
class EvictionEffect:
    """What becomes of responses after eviction: some are worse, and many of these shorter.

    Attributes:
        points: ``(share evicted, cases)``: shares ascending from 0, as many cases for each, the
            shortest first. Between two shares cases lie on straight lines; beyond the last one they
            stay.

    Raises:
        ConfigurationError: Shares that do not ascend from 0, or cases that do not fit.
    """

    points: tuple[tuple[float, Cases], ...]

    def __post_init__(self) -> None:
        shares = [share for share, _ in self.points]
        if not (shares and shares[0] == 0 and shares == sorted(set(shares)) and shares[-1] <= 1):
            raise ConfigurationError(f'shares evicted {shares}: expected 0 first, ascending to 1')
        numbers = [it for _, cases in self.points for case in cases for it in case]
        counts = {len(cases) for _, cases in self.points}
        if len(counts) != 1 or not (numbers and all(0 <= it < math.inf for it in numbers)):
            raise ConfigurationError(
                f'cases {self.points}: expected as many for each share, of finite numbers >= 0'
            )

    def at(self, share: float) -> Floats:
        """Return the cases with that share evicted, ``[cases, 2]``."""
        shares = [it for it, _ in self.points]
        place = min(max(1, bisect.bisect_left(shares, share)), len(shares) - 1)
        if place == 0:
            return np.array(self.points[0][1])
        (low, before), (high, after) = self.points[place - 1], self.points[place]
        way = min(1.0, max(0.0, (share - low) / (high - low)))
        found: Floats = (1 - way) * np.array(before) + way * np.array(after)
        return found


SNAPKV_EFFECT = EvictionEffect(
    (
        (0.0, ((1.0, 0.64), (1.0, 0.95), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0))),
        (0.25, ((0.92, 0.64), (1.0, 0.95), (1.0, 1.0), (1.0, 1.0), (1.19, 0.95))),
        (0.5, ((0.73, 0.69), (1.0, 0.82), (1.0, 1.0), (1.0, 1.0), (1.28, 0.9))),
        (0.75, ((0.58, 0.69), (0.95, 0.73), (1.0, 0.98), (1.0, 1.0), (1.43, 0.86))),
        (0.95, ((0.31, 0.55), (0.5, 0.63), (0.7, 0.62), (1.0, 0.79), (1.46, 0.85))),
    )
)
"""Lengths and F1 of 96 of the embedded model's plans in scenes of 40 to 200 objects, by fifths.
They were measured once, in static batches, on the tasks that
``benchmarks/timebill/timebill.py --seed 0`` draws; it prints such a table."""


@dataclass(frozen=True, slots=True)
class ScoredEviction:
    """Gives up the share with the largest expected score; the smallest of those worth the same.

    Under Kill the score counts if the response ends in time. Under Skip-Next it counts whenever the
    response ends, but a response takes as many periods as it lasts, in which others could have been
    made: so the worth is that of a period.

    Attributes:
        ends_by_s: When the generation must have ended, on the engine's clock (s).
        times: Coefficients of the expected case.
        spread: Relative standard deviation of the times.
        lengths: ``(length, probability)`` of the response.
        effect: What becomes of responses by the share evicted.
        max_evicted: alpha_max, the largest share to give up.
        period_s: Under Skip-Next, the time between two beginnings (s).
        ended: Under Kill, what it is worth that there is any answer, beside its quality.
    """

    ends_by_s: float
    times: TimeCoefficients
    spread: float
    lengths: tuple[tuple[int, float], ...]
    effect: EvictionEffect
    max_evicted: float = MAX_EVICTED
    period_s: float | None = None
    ended: float = 0.0

    def keep(self, prompt_tokens: int, now_s: float) -> int:
        """Return how many tokens keep their KV; all of them where no share is worth more."""
        remaining_s = self.ends_by_s - now_s
        best, evicted = LEAST_WORTH, 0.0
        for share in (*(it for it in SHARES if it < self.max_evicted), self.max_evicted):
            worth = self.worth(prompt_tokens, remaining_s, share)
            if worth > best * (1 + 1e-9):
                best, evicted = worth, share
        return max(1, retained_tokens(prompt_tokens, evicted, self.max_evicted))

    def worth(self, prompt_tokens: int, remaining_s: float, share: float) -> float:
        """Return the score to expect of a share; under Skip-Next that of a period."""
        ratios, qualities = self.effect.at(share).T
        lengths, probabilities = np.array(self.lengths).T
        steps = np.maximum(0.0, lengths[:, None] * ratios - 1)  # [lengths, cases]
        kv_tokens = (1 - share) * prompt_tokens + np.maximum(0.0, steps - 1) / 2
        decode_s = steps * (self.times.kv_token_s * kv_tokens + self.times.step_s)
        if share > 0:
            decode_s += self.times.evicting_time_s(prompt_tokens)
        if self.period_s is None:
            worths = (qualities + self.ended) / len(qualities)
            chances = self._chance(decode_s, remaining_s) @ worths
            return float(probabilities @ chances)
        periods = np.ones_like(decode_s)
        for number in range(MOST_PERIODS):
            periods += 1 - self._chance(decode_s, remaining_s + number * self.period_s)
        return float(qualities.mean() / (probabilities @ periods.mean(axis=1)))

    def _chance(self, decode_s: Floats, remaining_s: float) -> Floats:
        """Return the probabilities that steps of so much expected time end in what is left.

        The curve is logistic, which is nowhere 0.01 off the normal one.
        """
        if remaining_s <= 0:
            return np.where(decode_s > remaining_s, 0.0, 1.0)
        spread = max(LEAST_SPREAD, self.spread)
        off = np.log(np.maximum(decode_s, 1e-12) / remaining_s) * (1.702 / spread)
        found: Floats = 1 / (1 + np.exp(np.clip(off, -500, 500)))
        return found


def likely_lengths(forecast: LengthForecast, max_tokens: int) -> tuple[tuple[int, float], ...]:
    """Return equally likely lengths of a forecast, equal ones as one (tokens, probability)."""
    found: dict[int, float] = {}
    for case in range(CASES):
        known = forecast.quantile((case + 0.5) / CASES)
        length = max_tokens if known is None else min(known, max_tokens)
        found[length] = found.get(length, 0.0) + 1 / CASES
    return tuple(found.items())


def spread_of(expected: TimeCoefficients, worst: TimeCoefficients, coverage: float) -> float:
    """Return the relative deviation of steps' times whose ``coverage`` the worst ones are."""
    if expected.step_s <= 0 or worst.step_s <= expected.step_s:
        return 0.0
    return math.log(worst.step_s / expected.step_s) / max(0.1, NormalDist().inv_cdf(coverage))
