"""How much of a prompt's KV to evict so that the worst case fits a time budget (TimeBill).

TimeBill (section 4.3, eq. 10 and 11) evicts the smallest share alpha of the prompt's KV with which
prefill and the decoding of a pessimistic length end in time. Predicting the length costs nothing
here: it takes a millisecond, before the task is queued. Eq. 11 as printed has
``(N_W - 2) / (2 p N_x)`` where ``(N_W - 2) / (2 N_x)`` is right, which always evicts the most; it
has no lower bound, divides by zero, and does not say when even the most is not enough.

All of this is one division: the time by which the worst case without eviction exceeds the budget,
over the time that evicting everything would save. What evicting itself takes, which the paper does
not count, is added to the former.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from timely_llm_ros.prediction.times import TimeCoefficients

MAX_EVICTED = 0.95
"""The paper's alpha_max."""


@dataclass(frozen=True, slots=True)
class EvictionChoice:
    """What a budget asks for.

    Attributes:
        evicted: alpha, the share of the prompt's KV to evict after prefill.
        feasible: Whether the worst case then fits the budget. Where it does not, ``evicted`` is
            the most that can help, and one may refuse, shorten the response or take the risk.
        worst_s: The worst case with that share, from now to the end (s).
    """

    evicted: float
    feasible: bool
    worst_s: float


def choose_eviction(
    times: TimeCoefficients,
    *,
    prompt_tokens: int,
    worst_length: int,
    budget_s: float,
    cached_tokens: int = 0,
    max_evicted: float = MAX_EVICTED,
) -> EvictionChoice:
    """Return the smallest share to evict with which the worst case fits the budget (eq. 11).

    Nothing is evicted where that saves nothing: an empty prompt, a response of one token, a step
    whose time does not depend on the context, evicting that takes longer than it saves.

    Args:
        times: Coefficients; with a margin (``ExecutionTimeModel.at(coverage=...)``) where the
            worst case is to be one.
        prompt_tokens: N_x.
        worst_length: N_W >= 1, the pessimistic length of the response (tokens).
        budget_s: T, from now on (s); may be infinite, or negative where it is over.
        cached_tokens: Leading tokens of the prompt that need no prefill.
        max_evicted: alpha_max, 0 to 1.

    Raises:
        ConfigurationError: A value out of range.
    """
    _check(prompt_tokens, worst_length, budget_s, max_evicted)
    before_s = times.prefill_time_s(prompt_tokens, cached_tokens)
    return _choose(times, prompt_tokens, worst_length, budget_s, before_s, max_evicted)


def choose_eviction_after_prefill(
    times: TimeCoefficients,
    *,
    prompt_tokens: int,
    worst_length: int,
    remaining_s: float,
    max_evicted: float = MAX_EVICTED,
) -> EvictionChoice:
    """Return the share to evict for what is left of the budget once prefill is over.

    The time that really passed since the task arrived counts, queueing and suspension included,
    instead of the prefill that was predicted. Evicted KV does not come back: ask once.

    Args:
        times: As for :func:`choose_eviction`.
        prompt_tokens: N_x.
        worst_length: N_W >= 1, of which prefill has made the first token.
        remaining_s: Budget minus the time since arrival (s).
        max_evicted: alpha_max, 0 to 1.

    Raises:
        ConfigurationError: A value out of range.
    """
    _check(prompt_tokens, worst_length, remaining_s, max_evicted)
    return _choose(times, prompt_tokens, worst_length, remaining_s, 0.0, max_evicted)


def _check(prompt_tokens: int, worst_length: int, budget_s: float, max_evicted: float) -> None:
    if prompt_tokens < 0 or worst_length < 1:
        raise ConfigurationError(
            f'{prompt_tokens!r} prompt tokens, worst length {worst_length!r}: expected at least 0 '
            'and 1'
        )
    if math.isnan(budget_s):
        raise ConfigurationError('time budget nan s: expected a number')
    if not 0 <= max_evicted <= 1:
        raise ConfigurationError(f'largest share to evict {max_evicted!r}: expected 0 to 1')


def _choose(
    times: TimeCoefficients,
    prompt_tokens: int,
    worst_length: int,
    budget_s: float,
    before_s: float,
    max_evicted: float,
) -> EvictionChoice:
    def worst_s(evicted: float) -> float:
        return before_s + times.decode_time_s(prompt_tokens, worst_length, evicted)

    excess_s = worst_s(0.0) - budget_s
    if excess_s <= 0:
        return EvictionChoice(0.0, True, worst_s(0.0))
    saved_s = times.leverage_s(prompt_tokens, worst_length, 1.0)
    evicting_s = times.evicting_time_s(prompt_tokens)
    if saved_s * max_evicted <= evicting_s:
        return EvictionChoice(0.0, False, worst_s(0.0))
    evicted = (excess_s + evicting_s) / saved_s
    if evicted > max_evicted:
        return EvictionChoice(max_evicted, False, worst_s(max_evicted))
    return EvictionChoice(evicted, True, worst_s(evicted))


def retained_tokens(prompt_tokens: int, evicted: float, max_evicted: float = MAX_EVICTED) -> int:
    """Return how many of a prompt's tokens to keep: a whole number for a share.

    Rounded down, so that the budget holds; but never more than ``max_evicted`` is given up, which
    may cost less than ``p`` seconds per step.

    Raises:
        ConfigurationError: A share out of range, or a negative number of tokens.
    """
    if prompt_tokens < 0 or not 0 <= evicted <= max_evicted <= 1:
        raise ConfigurationError(
            f'share {evicted!r} of {prompt_tokens!r} tokens: expected 0 to {max_evicted!r} of 0 '
            'or more'
        )
    # Rounded first: 0.05 * 20 is a little more than 1 as 1 - 0.95.
    least = math.ceil(round((1 - max_evicted) * prompt_tokens, 9))
    return max(least, math.floor(round((1 - evicted) * prompt_tokens, 9)))
