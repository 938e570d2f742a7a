"""What plans cost the engine and their robots, learned from those that were served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timely_llm_ros.utility import TimeUtility

Kind = tuple[str, 'TimeUtility | None']
"""A skill set's name and the tasks' utility, which tells urgent tasks from others."""

MOST_KINDS = 512
"""Kinds that are learned; tasks may come with any number of utilities."""

ENOUGH = 3
"""Plans of a kind after which it is trusted by itself."""

_WEIGHT = 0.1


@dataclass(slots=True)
class PlanCost:
    """Means over a kind's plans.

    Attributes:
        first_s: From a first segment's beginning to its end on the engine (s).
        first_cost_s: What of the engine's time a first segment takes, shared steps shared (s).
        plan_cost_s: The same of a whole plan (s).
        robot_s: From a plan's first action to its end (s).
        firsts: First segments seen.
        plans: Whole plans seen.
        runs: Plans seen executed to their end.
    """

    first_s: float = 0.0
    first_cost_s: float = 0.0
    plan_cost_s: float = 0.0
    robot_s: float = 0.0
    firsts: int = 0
    plans: int = 0
    runs: int = 0

    @property
    def known(self) -> bool:
        """Whether enough was seen to expect anything."""
        return min(self.firsts, self.plans) >= ENOUGH

    def learn(self, name: str, value: float, seen: int) -> None:
        """Take one more value into a mean that was made of ``seen``."""
        weight = max(_WEIGHT, 1.0 / (seen + 1))
        setattr(self, name, getattr(self, name) + weight * (value - getattr(self, name)))


class PlanCosts:
    """Costs by kind; what is new counts as all of its skill set."""

    def __init__(self) -> None:
        self._costs: dict[Kind, PlanCost] = {}

    def observe_first(
        self, name: str, utility: TimeUtility, *, first_s: float, cost_s: float
    ) -> None:
        """Learn from a first segment."""
        for cost in self._of(name, utility):
            cost.learn('first_s', first_s, cost.firsts)
            cost.learn('first_cost_s', cost_s, cost.firsts)
            cost.firsts += 1

    def observe_plan(self, name: str, utility: TimeUtility, cost_s: float) -> None:
        """Learn from a whole plan."""
        for cost in self._of(name, utility):
            cost.learn('plan_cost_s', cost_s, cost.plans)
            cost.plans += 1

    def observe_run(self, name: str, utility: TimeUtility, robot_s: float) -> None:
        """Learn from a plan that was executed."""
        for cost in self._of(name, utility):
            cost.learn('robot_s', robot_s, cost.runs)
            cost.runs += 1

    def find(self, name: str, utility: TimeUtility) -> PlanCost | None:
        """Return what a plan of that kind costs; None before any first segment was seen."""
        cost = self._costs.get((name, utility))
        if cost is None or not cost.known:
            cost = self._costs.get((name, None))
        return cost

    def _of(self, name: str, utility: TimeUtility) -> list[PlanCost]:
        found = []
        for kind in ((name, None), (name, utility)):
            if kind not in self._costs and len(self._costs) < MOST_KINDS:
                self._costs[kind] = PlanCost()
            if kind in self._costs:
                found.append(self._costs[kind])
        return found
