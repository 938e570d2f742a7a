"""How much of a prompt's KV to evict so that the worst case fits a time budget (TimeBill).

TimeBill (section 4.3, eq. 10 and 11) evicts the smallest share alpha of the prompt's KV with which
prefill and the decoding of a pessimistic length end in time. That is one division: the time by
which the worst case without eviction exceeds the budget, over the time that evicting everything
would save. The time that evicting itself takes, which the paper does not count, is added to the
former.

Eq. 11 as printed has ``(N_W - 2) / (2 p N_x)`` where ``(N_W - 2) / (2 N_x)`` is right, and so
always evicts the most. It also has no lower bound, divides by zero, and does not say when even the
most is not enough.
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
        feasible: Whether the worst case then fits the budget; where it does not, ``evicted`` is
            the most that can help.
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
    prefill_s: float = 0.0,
    max_evicted: float = MAX_EVICTED,
) -> EvictionChoice:
    """Return the smallest share to evict with which the worst case fits the budget (eq. 11).

    Nothing is evicted where that saves nothing: an empty prompt, a response of one token, a step
    whose time does not depend on the context, evicting that takes longer than it saves. Evicted KV
    does not come back, so what is done with a prompt is asked once, when its prefill is over.

    Args:
        times: Coefficients; with a margin (``ExecutionTimeModel.at(coverage=...)``) where the
            worst case is to be one.
        prompt_tokens: N_x.
        worst_length: N_W >= 1, the pessimistic length of the response, whose first token prefill
            makes.
        budget_s: T, from now on (s); may be infinite, or negative where it is over.
        prefill_s: How long prefill still takes (s).
        max_evicted: alpha_max, 0 to 1.

    Raises:
        ConfigurationError: A value out of range.
    """
    if prompt_tokens < 0 or worst_length < 1:
        raise ConfigurationError(
            f'{prompt_tokens!r} prompt tokens, worst length {worst_length!r}: expected at least 0 '
            'and 1'
        )
    if math.isnan(budget_s):
        raise ConfigurationError('time budget nan s: expected a number')
    if not 0 <= max_evicted <= 1:
        raise ConfigurationError(f'largest share to evict {max_evicted!r}: expected 0 to 1')

    def choice(evicted: float, feasible: bool) -> EvictionChoice:
        decode_s = times.decode_time_s(prompt_tokens, worst_length, evicted)
        return EvictionChoice(evicted, feasible, prefill_s + decode_s)

    whole = choice(0.0, True)
    excess_s = whole.worst_s - budget_s
    if excess_s <= 0:
        return whole
    saved_s = times.leverage_s(prompt_tokens, worst_length, 1.0)
    evicting_s = times.evicting_time_s(prompt_tokens)
    if saved_s * max_evicted <= evicting_s:
        return choice(0.0, False)
    evicted = (excess_s + evicting_s) / saved_s
    return choice(min(evicted, max_evicted), evicted <= max_evicted)


def retained_tokens(prompt_tokens: int, evicted: float, max_evicted: float = MAX_EVICTED) -> int:
    """Return how many of a prompt's tokens to keep where a share of them is evicted.

    The number is rounded down, so that the budget holds; but never more than ``max_evicted`` is
    given up, which may cost less than ``p`` seconds per step.

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
