"""What a second of the engine earns elsewhere: the price that a task must be worth.

The tasks that came lately, served or refused, say what is asked for. Where it is more than there
is, the engine should go to those that earn most per second of it, and the kind that just finds no
room sets the price: a task that earns less than its engine time at that price takes the place of
one that earns more. This is the bid price of revenue management (Talluri and van Ryzin, 1998).

Clients share the engine by their weights, and what one does not ask for goes to the others. Each
has the price of its own tasks in its own share, so whoever asks for too much pays by itself.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from timely_llm_ros.planner.worth.costs import Kind, PlanCosts

WINDOW_S = 20.0
"""A task counts the less the longer ago it came: by 1/e after this (s)."""

MARGINAL = 0.8
"""What of its peak a task of the kind that sets the price must be expected to earn. At 1 only those
that find the engine idle would be good enough, and it would be idle between them."""

LEAST_AGE_S = 10.0
"""For how long tasks count as having come, at least (s): a first burst alone is no rate."""

NEGLIGIBLE = 1e-4
"""Kinds of which fewer come per second are forgotten."""


class Prices:
    """The price of the engine's time for each client.

    Args:
        costs: What plans cost.
        weight_of: What a client counts.
    """

    def __init__(self, costs: PlanCosts, weight_of: Callable[[str], float]) -> None:
        self._costs, self._weight_of = costs, weight_of
        self._rates: dict[str, dict[Kind, float]] = defaultdict(lambda: defaultdict(float))
        self._began_s = self._at_s = -math.inf

    def note(self, now_s: float, client: str, kind: Kind) -> None:
        """Note that a client's task came."""
        if self._began_s == -math.inf:
            self._began_s = now_s
        self._decay(now_s)
        self._rates[client][kind] += 1.0 / WINDOW_S

    def demand(self, now_s: float) -> float:
        """Return how much of the engine is asked for; above 1 it is more than there is.

        Where tasks came for less than the window, it is as if they had come so all the time.
        """
        return sum(share for kinds in self._asked(now_s).values() for _, share in kinds)

    def price(self, now_s: float, client: str) -> float:
        """Return what a second of the engine must earn for a client (utility/s); 0 if all fits."""
        kinds = self._asked(now_s)
        asked = {name: sum(share for _, share in some) for name, some in kinds.items()}
        if sum(asked.values()) <= 1.0:
            return 0.0
        weights = {name: self._weight_of(name) for name in asked}
        left = fair_shares(asked, weights).get(client, 1.0)
        for density, share in sorted(kinds.get(client, ()), reverse=True):
            left -= share
            if left < 0:
                return MARGINAL * density
        return 0.0

    def _asked(self, now_s: float) -> dict[str, list[tuple[float, float]]]:
        """Return of each client's kinds what a second of the engine earns, and how much they ask.

        The first in utility/s, the second as a part of the engine.
        """
        self._decay(now_s)
        age_s = max(LEAST_AGE_S, now_s - self._began_s)
        seen = -math.expm1(-age_s / WINDOW_S)
        return {
            client: [
                (kind.utility.peak / cost_s, rate * cost_s / seen)
                for kind, rate in kinds.items()
                if (cost_s := self._cost_s(kind)) > 0
            ]
            for client, kinds in self._rates.items()
        }

    def _cost_s(self, kind: Kind) -> float:
        cost = self._costs.find(kind)
        return 0.0 if cost is None else cost.plan_cost_s

    def _decay(self, now_s: float) -> None:
        if now_s <= self._at_s:
            return
        factor = math.exp((self._at_s - now_s) / WINDOW_S)
        self._at_s = now_s
        for client, kinds in tuple(self._rates.items()):
            for kind in tuple(kinds):
                kinds[kind] *= factor
                if kinds[kind] < NEGLIGIBLE:
                    del kinds[kind]
            if not kinds:
                del self._rates[client]


def fair_shares(asked: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """Share 1 among those who ask, by weight, none more than it asks for (max-min fair).

    If all together ask for less than 1, each gets what it asks for.
    """
    shares: dict[str, float] = {}
    left = 1.0
    open_names = sorted(asked, key=lambda name: asked[name] / weights[name])
    total = sum(weights[name] for name in open_names)
    for name in open_names:
        shares[name] = min(asked[name], left * weights[name] / total)
        left -= shares[name]
        total -= weights[name]
    return shares
