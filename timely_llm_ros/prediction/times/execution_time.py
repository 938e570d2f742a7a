"""How long a generation takes: TimeBill's execution-time estimator (section 4.2, eq. 4 to 9).

Prefill of ``N`` tokens takes ``a N^2 + b N + c``, a decoding step over ``N_kv`` tokens of context
``p N_kv + q``. A generation of length ``n`` takes one prefill, which makes its first token, and
``n - 1`` steps.

The paper's model is for one generation on an idle machine. Here ``p`` and ``q`` depend on how many
generations share a step, which reads the context of all of them, and cached tokens of a prompt cost
nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class TimeCoefficients:
    """Coefficients of one batch size.

    Attributes:
        prefill_square_s: a, time per squared token of the prompt (s).
        prefill_token_s: b, time per token of the prompt (s).
        prefill_s: c, time of a prefill without tokens (s).
        kv_token_s: p, time of a step per token of context (s).
        step_s: q, time of a step over an empty context (s).
        evicting_token_s: Time that evicting any share takes per token of the prompt (s).

    Raises:
        ConfigurationError: One is negative or not finite.
    """

    prefill_square_s: float
    prefill_token_s: float
    prefill_s: float
    kv_token_s: float
    step_s: float
    evicting_token_s: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value >= 0):
                raise ConfigurationError(f'{field.name} {value!r}: expected a finite number >= 0')

    def prefill_time_s(self, prompt_tokens: float, cached_tokens: float = 0) -> float:
        """Return how long the prompt takes beyond its cached beginning (s), eq. 4a.

        Raises:
            ConfigurationError: More is cached than the prompt has.
        """
        if not 0 <= cached_tokens <= prompt_tokens:
            raise ConfigurationError(
                f'{cached_tokens!r} cached tokens: expected 0 to {prompt_tokens!r}, the prompt'
            )
        # As a product: the difference of two large squares would lose digits.
        new = prompt_tokens - cached_tokens
        square = new * (prompt_tokens + cached_tokens)
        return self.prefill_square_s * square + self.prefill_token_s * new + self.prefill_s

    def step_time_s(self, kv_tokens: float) -> float:
        """Return how long a step over ``kv_tokens`` of context takes (s), eq. 6."""
        return self.kv_token_s * kv_tokens + self.step_s

    def decode_time_s(self, prompt_tokens: float, length: int, evicted: float = 0.0) -> float:
        """Return how long all steps of a response take together (s), eq. 7, and evicting itself.

        The first of the ``length`` tokens comes out of prefill. ``evicted`` is alpha, the share of
        the prompt's KV that is evicted after it.
        """
        before_s = self.evicting_time_s(prompt_tokens) if evicted > 0 else 0.0
        if length <= 1:
            return before_s
        steps = length - 1
        grown = steps * (length - 2) / 2
        steps_s = steps * self.step_time_s((1 - evicted) * prompt_tokens)
        return before_s + steps_s + self.kv_token_s * grown

    def evicting_time_s(self, prompt_tokens: float) -> float:
        """Return how long evicting from a prompt takes (s), which TimeBill does not count."""
        return self.evicting_token_s * prompt_tokens

    def total_time_s(
        self, prompt_tokens: float, length: int, evicted: float = 0.0, cached_tokens: float = 0
    ) -> float:
        """Return prefill and decoding together (s): eq. 8 for a predicted length.

        With a pessimistic length and coefficients at a coverage it is the WCET of eq. 9.
        """
        return self.prefill_time_s(prompt_tokens, cached_tokens) + self.decode_time_s(
            prompt_tokens, length, evicted
        )

    def with_steps(self, share: float) -> TimeCoefficients:
        """Return the times of responses of which only this share of the tokens takes a step."""
        return replace(self, kv_token_s=share * self.kv_token_s, step_s=share * self.step_s)

    def leverage_s(self, prompt_tokens: float, length: int, max_evicted: float) -> float:
        """Return by how much eviction can shorten a response at most (s), its own time aside.

        Eviction matters for budgets in a window that wide. Where the window is small against the
        whole time, eviction is nearly all or nothing.
        """
        return self.kv_token_s * prompt_tokens * max_evicted * max(0, length - 1)


@dataclass(frozen=True, slots=True)
class DecodeCoefficients:
    """Coefficients of a step that ``batch`` generations share.

    Attributes:
        batch: Generations in the step.
        kv_token_s: p, time per token of their contexts together (s).
        step_s: q, time with empty contexts (s).
    """

    batch: int
    kv_token_s: float
    step_s: float


def decode_at(decode: Sequence[DecodeCoefficients], batch: int) -> tuple[float, float]:
    """Return ``(p, q)`` of a step of ``batch`` generations (s per token, s).

    Both are interpolated between the batch sizes of ``decode``, which ascend. Beyond the largest
    ``q`` grows on as between the last two, and ``p`` stays.
    """
    first, last = decode[0], decode[-1]
    if batch <= first.batch:
        return first.kv_token_s, first.step_s
    if batch >= last.batch:
        growth_s = 0.0
        if len(decode) > 1:
            before = decode[-2]
            growth_s = max(0.0, last.step_s - before.step_s) / (last.batch - before.batch)
        return last.kv_token_s, last.step_s + growth_s * (batch - last.batch)
    above = next(place for place, entry in enumerate(decode) if entry.batch >= batch)
    low, high = decode[above - 1], decode[above]
    share = (batch - low.batch) / (high.batch - low.batch)
    return (
        low.kv_token_s + share * (high.kv_token_s - low.kv_token_s),
        low.step_s + share * (high.step_s - low.step_s),
    )


@dataclass(frozen=True, slots=True)
class Margin:
    """How much longer than predicted single measurements took.

    Attributes:
        coverage: The share of measurements that stayed below the factors.
        prefill: Factor for prefills.
        step: Factor for decoding steps.
    """

    coverage: float
    prefill: float
    step: float


@dataclass(frozen=True, slots=True)
class ExecutionTimeModel:
    """What was fitted for one machine and model.

    Attributes:
        prefill_square_s: a (s).
        prefill_token_s: b (s).
        prefill_s: c (s).
        decode: By batch size, ascending.
        margins: By coverage, ascending; may be empty.
        evicting_token_s: What evicting takes, per token of the prompt (s).

    Raises:
        ConfigurationError: No batch size, not ascending, or a coefficient out of range.
    """

    prefill_square_s: float
    prefill_token_s: float
    prefill_s: float
    decode: tuple[DecodeCoefficients, ...]
    margins: tuple[Margin, ...] = ()
    evicting_token_s: float = 0.0

    def __post_init__(self) -> None:
        batches = [entry.batch for entry in self.decode]
        if not batches or batches[0] < 1 or batches != sorted(set(batches)):
            raise ConfigurationError(f'batch sizes {batches}: expected ascending ones from 1 on')
        for margin in self.margins:
            if not (0 < margin.coverage < 1 and margin.prefill >= 1 and margin.step >= 1):
                raise ConfigurationError(
                    f'margin {margin}: expected a coverage between 0 and 1 and factors >= 1'
                )
        for batch in batches:
            self.at(batch)

    def at(
        self, batch: int = 1, *, other_kv_tokens: float = 0, coverage: float | None = None
    ) -> TimeCoefficients:
        """Return the coefficients for one generation in steps of ``batch``.

        Args:
            batch: Generations in each step, this one included.
            other_kv_tokens: The most context that the others have together (tokens), which every
                step reads and this generation's eviction leaves as it is.
            coverage: Scale by the margin of that coverage, for a worst case; None for the
                expected case.

        Raises:
            ConfigurationError: No such batch, or the coverage was not measured.
        """
        if batch < 1 or other_kv_tokens < 0:
            raise ConfigurationError(
                f'batch {batch!r} with {other_kv_tokens!r} other tokens: expected 1 and 0 or more'
            )
        kv_token_s, step_s = decode_at(self.decode, batch)
        prefill, step = 1.0, 1.0
        if coverage is not None:
            margin = self._margin(coverage)
            prefill, step = margin.prefill, margin.step
        return TimeCoefficients(
            prefill * self.prefill_square_s,
            prefill * self.prefill_token_s,
            prefill * self.prefill_s,
            step * kv_token_s,
            step * (step_s + kv_token_s * other_kv_tokens),
            prefill * self.evicting_token_s,
        )

    def paced(self, least_step_s: float, *, prefill_chunk: int, longest: int) -> ExecutionTimeModel:
        """Return the times of an engine none of whose steps is shorter than ``least_step_s``.

        A step then takes the longer of two times. The line through the ends of that curve, for
        contexts of up to ``longest`` tokens together, is never below it. Every chunk of at most
        ``prefill_chunk`` prompt tokens counts a least step on top.
        """
        if not least_step_s:
            return self
        decode = []
        for entry in self.decode:
            empty_s = max(entry.step_s, least_step_s)
            full_s = max(entry.step_s + entry.kv_token_s * longest, least_step_s)
            decode.append(DecodeCoefficients(entry.batch, (full_s - empty_s) / longest, empty_s))
        return replace(
            self,
            prefill_token_s=self.prefill_token_s + least_step_s / prefill_chunk,
            prefill_s=self.prefill_s + least_step_s,
            decode=tuple(decode),
        )

    def _margin(self, coverage: float) -> Margin:
        for margin in self.margins:
            if margin.coverage >= coverage:
                return margin
        known = [margin.coverage for margin in self.margins]
        raise ConfigurationError(f'coverage {coverage!r}: expected at most one of {known}')
