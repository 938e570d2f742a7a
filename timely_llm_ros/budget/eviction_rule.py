"""Rules that say how many of a prompt's tokens keep their KV.

A rule travels with a generation's request to its engine, which asks it once, at the moment when
the prompt's KV is complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from timely_llm_ros.budget.budgeter import MAX_EVICTED, choose_eviction, retained_tokens
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from timely_llm_ros.prediction.times import TimeCoefficients


class EvictionRule(Protocol):
    """Says how much of a prompt to keep."""

    def keep(self, prompt_tokens: int, now_s: float, /) -> int:
        """Return how many of ``prompt_tokens`` keep their KV, at least one.

        They include the shared beginning. Prefill ended at ``now_s``, on the engine's clock.
        """
        ...


@dataclass(frozen=True, slots=True)
class FixedEviction:
    """Gives up the same share of every prompt, whatever the time.

    Raises:
        ConfigurationError: The share is not at least 0 and below 1.
    """

    evicted: float

    def __post_init__(self) -> None:
        if not 0 <= self.evicted < 1:
            raise ConfigurationError(f'share {self.evicted!r} to evict: expected 0 up to 1')

    def keep(self, prompt_tokens: int, _now_s: float) -> int:
        """Return how many tokens keep their KV."""
        return max(1, retained_tokens(prompt_tokens, self.evicted, self.evicted))


@dataclass(frozen=True, slots=True)
class BudgetedEviction:
    """Gives up the smallest share with which the worst case fits what is left of a time budget.

    Where the worst case does not fit even without ``max_evicted`` of the prompt, TimeBill evicts
    that much. But most responses are shorter than the worst case, and their KV would be given up
    for nothing; so another rule may decide then.

    Attributes:
        ends_by_s: When the generation must have ended, on the engine's clock (s).
        times: Coefficients of the worst case.
        worst_length: N_W >= 1 (tokens).
        max_evicted: alpha_max, the largest share to give up.
        otherwise: Decides where no worst case fits; None for the most, as TimeBill does.
    """

    ends_by_s: float
    times: TimeCoefficients
    worst_length: int
    max_evicted: float = MAX_EVICTED
    otherwise: EvictionRule | None = None

    def keep(self, prompt_tokens: int, now_s: float) -> int:
        """Return how many tokens keep their KV."""
        choice = choose_eviction(
            self.times,
            prompt_tokens=prompt_tokens,
            worst_length=self.worst_length,
            budget_s=self.ends_by_s - now_s,
            max_evicted=self.max_evicted,
        )
        if not choice.feasible and self.otherwise is not None:
            return self.otherwise.keep(prompt_tokens, now_s)
        return max(1, retained_tokens(prompt_tokens, choice.evicted, self.max_evicted))
