"""What segments cost, learned from the segments that were generated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timely_llm_ros.utility import TimeUtility

UNKNOWN_GENERATION_S = 0.09
"""Expected generation time before anything was observed: TimelyLLM's profile (section 7.1)."""

UNKNOWN_WORST_TOKENS = 10
"""Worst-case tokens of a segment before anything was observed: TimelyLLM's ``maxlen``."""


MOST_CLASSES = 512
"""Classes kept; tasks may come with any number of utilities."""

ENOUGH = 3
"""Segments of a class after which it is trusted by itself."""


@dataclass(slots=True)
class _Cost:
    generation_s: float
    worst_tokens: float
    seen: int = 1


class SegmentCosts:
    """Expected time and worst-case length of segments, per class.

    A class is a skill set's name, the task's utility, which tells urgent tasks from others, and
    whether the segment is a plan's first, which carries the prefill. Where a class is new, all
    segments of that skill set count.

    Args:
        weight: Weight of a new observation in the mean time.
        decay: How much of the worst case stays after each segment, so that it forgets.
    """

    def __init__(self, weight: float = 0.1, decay: float = 0.99) -> None:
        self._weight = weight
        self._decay = decay
        self._costs: dict[tuple[str, TimeUtility | None, bool], _Cost] = {}

    def observe(
        self, name: str, utility: TimeUtility, *, first: bool, generation_s: float, tokens: int
    ) -> bool:
        """Learn from one segment; return whether it is among the first ``ENOUGH`` of its class."""
        for kind in (None, utility):
            cost = self._costs.get((name, kind, first))
            if cost is None:
                if len(self._costs) < MOST_CLASSES:
                    self._costs[name, kind, first] = _Cost(generation_s, float(tokens))
                continue
            cost.seen += 1
            cost.generation_s += self._weight * (generation_s - cost.generation_s)
            cost.worst_tokens = max(float(tokens), self._decay * cost.worst_tokens)
        own = self._costs.get((name, utility, first))
        return own is not None and own.seen <= ENOUGH

    def expected_s(self, name: str, utility: TimeUtility, *, first: bool) -> float:
        """Return the expected engine time of a segment (s)."""
        cost = self._find(name, utility, first)
        return UNKNOWN_GENERATION_S if cost is None else cost.generation_s

    def worst_tokens(self, name: str, utility: TimeUtility, *, first: bool) -> int:
        """Return the most tokens that a segment is taken to have."""
        cost = self._find(name, utility, first)
        return UNKNOWN_WORST_TOKENS if cost is None else round(cost.worst_tokens)

    def _find(self, name: str, utility: TimeUtility, first: bool) -> _Cost | None:
        cost = self._costs.get((name, utility, first))
        if cost is None or cost.seen < ENOUGH:
            cost = self._costs.get((name, None, first))
        return cost


class ProfiledCosts(SegmentCosts):
    """Costs that were profiled beforehand and are not learned, as in TimelyLLM.

    Every segment takes ``generation_s`` and has at most the paper's number of tokens.
    """

    def __init__(self, generation_s: float) -> None:
        super().__init__()
        self._generation_s = generation_s

    def observe(self, *_: object, **__: object) -> bool:
        """Learn nothing."""
        return False

    def expected_s(self, name: str, utility: TimeUtility, *, first: bool) -> float:  # noqa: ARG002 -- all cost the same
        """Return the profiled time (s)."""
        return self._generation_s
