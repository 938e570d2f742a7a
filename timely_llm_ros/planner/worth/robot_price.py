"""What a second of a robot earns elsewhere: the price that a plan must be worth where robots lack.

A robot that has a plan is closed to whoever comes meanwhile. How much those would have earned is
known from the tasks that lately came to busy robots. A robot that was offered just these, and took
only the kinds that earn most per second of it, would earn so much per second, the waits between
them included; the best such choice is the price. A task that earns less in its time is better left
out. For one robot and tasks that come independently this is the best that any rule can do (Miller,
A queueing reward system with several customer classes, 1969).

A plan closes its robot to somebody only where that one could not name another robot. So the price
counts by how many of the robots that have such tasks are busy: all of it where all are, none where
no robot is. Clients share the robots by their weights, as they do the engine: each has the price
of its own tasks in its own share.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timely_llm_ros.planner.worth.price import WINDOW_S, fair_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from timely_llm_ros.planner.worth.costs import Kind, PlanCosts


NEGLIGIBLE = 1e-3
"""Kinds of which fewer count are forgotten."""


@dataclass(slots=True)
class _Fleet:
    """The robots of one skill set, and what came lately to those of them that were busy.

    Attributes:
        robots: Those that ever had a task.
        open: How many tasks each has, of those that have any.
        busy_s: How long robots were busy, summed (s).
        came: How many tasks came to busy robots, by client and kind.
        at_s: Until when that is known.
    """

    robots: set[str] = field(default_factory=set)
    open: Counter[str] = field(default_factory=Counter)
    busy_s: float = 0.0
    came: dict[str, dict[Kind, float]] = field(default_factory=dict)
    at_s: float = -math.inf

    def advance(self, now_s: float) -> None:
        """Let what was count the less the longer ago it was: by 1/e after ``WINDOW_S``."""
        if now_s <= self.at_s:
            return
        factor = math.exp((self.at_s - now_s) / WINDOW_S)
        self.busy_s = factor * self.busy_s + (1.0 - factor) * WINDOW_S * len(self.open)
        self.at_s = now_s
        self.came = {
            client: left
            for client, kinds in self.came.items()
            if (left := {k: n * factor for k, n in kinds.items() if n * factor > NEGLIGIBLE})
        }


class RobotPrices:
    """The price of a robot's time for each client and skill set.

    Args:
        costs: What plans cost.
        weight_of: What a client counts.
    """

    def __init__(self, costs: PlanCosts, weight_of: Callable[[str], float]) -> None:
        self._costs, self._weight_of = costs, weight_of
        self._fleets: dict[str, _Fleet] = defaultdict(_Fleet)

    @property
    def idle(self) -> bool:
        """Whether no robot has a task."""
        return not any(fleet.open for fleet in self._fleets.values())

    def note(self, now_s: float, client: str, kind: Kind) -> None:
        """Note that a client's task came to a robot that has one."""
        fleet = self._fleets[kind.skill_set]
        fleet.advance(now_s)
        kinds = fleet.came.setdefault(client, {})
        kinds[kind] = kinds.get(kind, 0.0) + 1.0

    def take(self, now_s: float, skill_set: str, robot: str) -> None:
        """Note that a robot has one task more."""
        fleet = self._fleets[skill_set]
        fleet.advance(now_s)
        fleet.robots.add(robot)
        fleet.open[robot] += 1

    def end(self, now_s: float, skill_set: str, robot: str) -> None:
        """Note that a robot has one task less."""
        fleet = self._fleets[skill_set]
        fleet.advance(now_s)
        fleet.open[robot] -= 1
        if not fleet.open[robot]:
            del fleet.open[robot]

    def price(self, now_s: float, client: str, skill_set: str) -> float:
        """Return what a second of such a robot must earn for a client (utility/s)."""
        fleet = self._fleets[skill_set]
        fleet.advance(now_s)
        if client not in fleet.came or not fleet.robots:
            return 0.0
        asked = {name: self._asked_s(kinds) for name, kinds in fleet.came.items()}
        shares = fair_shares(asked, {name: self._weight_of(name) for name in asked})
        share = shares[client] / sum(shares.values()) if shares[client] else 1.0
        # As if one robot had been busy for a while before, so that the first few tell little.
        offered_s, earned, best = share * (fleet.busy_s + WINDOW_S), 0.0, 0.0
        for utility, robot_s, count in sorted(self._each(fleet.came[client]), key=_density):
            earned += count * utility
            offered_s += count * robot_s
            best = max(best, earned / offered_s)
        return best * len(fleet.open) / len(fleet.robots)

    def _asked_s(self, kinds: Mapping[Kind, float]) -> float:
        return sum(count * robot_s for _, robot_s, count in self._each(kinds))

    def _each(self, kinds: Mapping[Kind, float]) -> list[tuple[float, float, float]]:
        """Return what each kind is worth, how long it keeps a robot (s) and how many came."""
        return [
            (kind.utility.peak, cost.busy_s, count)
            for kind, count in kinds.items()
            if (cost := self._costs.find(kind)) is not None and cost.runs
        ]


def _density(kind: tuple[float, float, float]) -> float:
    utility, robot_s, _ = kind
    return -utility / max(robot_s, 1e-9)
