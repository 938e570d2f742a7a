"""What plans cost the engine and their robots, learned from those that were served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from timely_llm_ros.utility import TimeUtility


class Kind(NamedTuple):
    """Tasks that are expected to cost alike.

    Attributes:
        skill_set: Its name.
        utility: It tells urgent tasks from others.
        label: What clients call such tasks; empty for all of that utility.
    """

    skill_set: str
    utility: TimeUtility
    label: str = ''

    @property
    def unlabelled(self) -> Kind:
        """All kinds of that utility."""
        return self._replace(label='')


MOST_KINDS = 512
"""Kinds that are learned; tasks may come with any number of utilities and labels."""

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

    @property
    def busy_s(self) -> float:
        """How long such a plan keeps its robot from others (s)."""
        return self.first_s + self.robot_s

    def learn(self, name: str, value: float, seen: int) -> None:
        """Take one more value into a mean that was made of ``seen``."""
        weight = max(_WEIGHT, 1.0 / (seen + 1))
        setattr(self, name, getattr(self, name) + weight * (value - getattr(self, name)))


class PlanCosts:
    """Costs by kind; a new kind counts as all of its utility, or else of its skill set."""

    def __init__(self) -> None:
        self._costs: dict[Kind | str, PlanCost] = {}

    def observe_first(self, kind: Kind, *, first_s: float, cost_s: float) -> None:
        """Learn from a first segment."""
        for cost in self._of(kind):
            cost.learn('first_s', first_s, cost.firsts)
            cost.learn('first_cost_s', cost_s, cost.firsts)
            cost.firsts += 1

    def observe_plan(self, kind: Kind, cost_s: float) -> None:
        """Learn from a whole plan."""
        for cost in self._of(kind):
            cost.learn('plan_cost_s', cost_s, cost.plans)
            cost.plans += 1

    def observe_run(self, kind: Kind, robot_s: float) -> None:
        """Learn from a plan that was executed."""
        for cost in self._of(kind):
            cost.learn('robot_s', robot_s, cost.runs)
            cost.runs += 1

    def find(self, kind: Kind) -> PlanCost | None:
        """Return what a plan of that kind costs; None before any first segment was seen."""
        cost = None
        for like in _likes(kind):
            cost = self._costs.get(like)
            if cost is not None and cost.known:
                break
        return cost

    def _of(self, kind: Kind) -> list[PlanCost]:
        found = []
        for like in _likes(kind)[::-1]:
            if like not in self._costs and len(self._costs) < MOST_KINDS:
                self._costs[like] = PlanCost()
            if like in self._costs:
                found.append(self._costs[like])
        return found


def _likes(kind: Kind) -> tuple[Kind | str, ...]:
    """Return a kind and what it is one of: its utility, its skill set; the narrowest first."""
    wider = kind.unlabelled, kind.skill_set
    return (kind, *wider) if kind.label else wider
