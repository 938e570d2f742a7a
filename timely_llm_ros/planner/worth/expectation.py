"""What a task that comes now can expect: its response, its completion, its utility.

A response has three parts. The robot's: what is left of the plan in its hands and of those that
wait before. The engine's: the first segments that go before, each at what it takes of the engine,
while plans that go on take their part. Its own: a first segment as long as they take now. The
model is coarse: how much of those that go before share steps with it, for one, is not known. By
what factor the engine's part counts, and by what factor the others do, is learned kind by kind
(normalized least mean squares: Nagumo and Noda, 1967), and so is the quantile that is promised.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from timely_llm_ros.planner.worth.costs import MOST_KINDS

if TYPE_CHECKING:
    from timely_llm_ros.planner.worth.costs import Kind, PlanCost, PlanCosts

PROMISED = 0.9
"""Share of the tasks whose response is no longer than was promised."""

_STEP = 0.08
"""How fast the promised quantile follows (in the logarithm of the response)."""

_FIRST_STEP = 0.8
"""The same for the first response of a kind; it falls with the root of their number."""

_RATE = 0.1
"""Least share of its error that a new response takes off; the first ones take all or much of it."""

_MOST_OFF = 5.0
"""The model is not believed to be further off than by this factor."""

_WINDOW_S = 10.0
"""Over which it is measured how much of the engine plans take that go on (s)."""

_LEAST_FREE = 0.1
"""Least share of the engine that is left to first segments."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a task could expect when it came. Times from then, in s.

    Attributes:
        response_s: Until its first action.
        promised_s: The same, kept by ``PROMISED`` of the tasks.
        completion_s: Until its plan has been executed.
        utility: Of the expected response.
        robot_s: What of the response is the wait for its robot.
        engine_s: What of it is the wait for the engine.
    """

    response_s: float
    promised_s: float
    completion_s: float
    utility: float
    robot_s: float
    engine_s: float


class _Parts(NamedTuple):
    """What the model says of a response: the robot's part and its own, and the engine's (s)."""

    own_s: float
    engine_s: float


@dataclass(slots=True)
class _Error:
    """By what factors responses differ from the model's parts, and the quantile from their sum."""

    seen: int = 0
    own: float = 1.0
    engine: float = 1.0
    quantile: float = 2.0

    def response_s(self, parts: _Parts) -> float:
        return self.own * parts.own_s + self.engine * parts.engine_s

    def learn(self, parts: _Parts, response_s: float, *, kept: bool, at_least: bool) -> None:
        self.seen += 1
        early = 1.0 / math.sqrt(self.seen)
        missed_s = response_s - self.response_s(parts)
        if at_least:
            missed_s = max(0.0, missed_s)
        missed = max(_RATE, early) * missed_s / max(parts.own_s**2 + parts.engine_s**2, 1e-12)
        self.own = _bounded(self.own + missed * parts.own_s)
        self.engine = _bounded(self.engine + missed * parts.engine_s)
        # In the long run exactly the promised share is kept, whatever the model is worth.
        step = -(1.0 - PROMISED) if kept else PROMISED
        step *= max(_STEP, _FIRST_STEP * early)
        self.quantile = min(max(self.quantile * math.exp(step), 0.1), _MOST_OFF)


class Expectations:
    """Expects responses from what the engine has to do, and learns from those that came."""

    def __init__(self, costs: PlanCosts) -> None:
        self._costs = costs
        self._pending: dict[str, Kind] = {}
        self._pending_of: Counter[Kind] = Counter()
        self._errors: dict[tuple[Kind | str, bool], _Error] = {}
        self._made: dict[str, tuple[tuple[Kind, bool], _Parts, float]] = {}
        self._later_share, self._at_s = 0.0, 0.0

    def expect(self, kind: Kind, *, now_s: float, robot_s: float) -> Expectation | None:
        """Return what such a task can expect; None as long as nothing of its like was seen.

        ``robot_s`` is how long its robot is expected to be busy.
        """
        cost = self._costs.find(kind)
        if cost is None or not cost.known:
            return None
        self._decay(now_s)
        engine_s = self._ahead_s(kind) / max(_LEAST_FREE, 1.0 - self._later_share)
        error = self._error((kind.unlabelled, robot_s > 0))
        parts = _Parts(robot_s + cost.first_s, engine_s)
        response_s = error.response_s(parts)
        return Expectation(
            response_s,
            sum(parts) * error.quantile,
            response_s + cost.robot_s,
            kind.utility.first(response_s),
            robot_s,
            error.engine * engine_s,
        )

    @property
    def pending(self) -> int:
        """How many plans on the engine have no segment yet."""
        return len(self._pending)

    def promise(self, task_id: str, kind: Kind, made: Expectation) -> None:
        """Note what a task that was taken was told, to learn from what comes of it."""
        key = kind.unlabelled, made.robot_s > 0
        error = self._error(key)
        own_s = max(0.0, made.response_s - made.engine_s) / error.own
        self._made[task_id] = key, _Parts(own_s, made.engine_s / error.engine), made.promised_s

    def begin(self, task_id: str, kind: Kind) -> None:
        """Note that a plan's generation is on the engine."""
        self._settle(task_id)
        self._pending[task_id] = kind
        self._pending_of[kind] += 1

    def spend(self, task_id: str, now_s: float, cost_s: float, *, first: bool) -> None:
        """Note that a segment is complete, and what it took of the engine."""
        self._settle(task_id)
        self._decay(now_s)
        if not first:
            self._later_share += cost_s / _WINDOW_S

    def end(self, task_id: str, response_s: float | None, *, given_up: bool = False) -> bool | None:
        """Learn from a task's response; return whether its promise was kept, None without one.

        Where it was ``given_up`` because it came too late, ``response_s`` is how late it was then,
        and its first segment was still to come.
        """
        self._settle(task_id)
        made = self._made.pop(task_id, None)
        if made is None or response_s is None:
            return None
        key, parts, promised_s = made
        kept = response_s <= promised_s and not given_up
        if given_up and (cost := self._costs.find(key[0])) is not None:
            response_s += cost.first_s
        self._error(key).learn(parts, response_s, kept=kept, at_least=given_up)
        return kept

    def _settle(self, task_id: str) -> None:
        """Note that a plan has its first segment, or will have none."""
        kind = self._pending.pop(task_id, None)
        if kind is not None:
            self._pending_of[kind] -= 1
            if not self._pending_of[kind]:
                del self._pending_of[kind]

    def _ahead_s(self, kind: Kind) -> float:
        """Return what of the engine's time first segments take that go before one of a kind (s).

        Those of the same utility that came before always do, whatever they are called and however
        far what is learned of their costs has moved since: the scheduler knows no labels. What they
        cost is asked now, so that those count too that came before anything was known.
        """
        like = kind.unlabelled
        rank = _rank(like, self._costs.find(like))
        ahead_s = 0.0
        for other, count in self._pending_of.items():
            cost = self._costs.find(other)
            if cost is not None and (other.unlabelled == like or _rank(other, cost) >= rank):
                ahead_s += count * cost.first_cost_s
        return ahead_s

    def _error(self, key: tuple[Kind, bool]) -> _Error:
        error = self._errors.get(key)
        if error is None:
            if len(self._errors) >= MOST_KINDS:
                return self._errors.setdefault(('', key[1]), _Error())
            error = self._errors[key] = _Error()
        return error

    def _decay(self, now_s: float) -> None:
        if now_s > self._at_s:
            self._later_share *= math.exp((self._at_s - now_s) / _WINDOW_S)
            self._at_s = now_s


def _bounded(factor: float) -> float:
    return min(max(factor, 1.0 / _MOST_OFF), _MOST_OFF)


def _rank(kind: Kind, cost: PlanCost | None) -> float:
    """Return in which order first segments go: who loses most per second of the engine."""
    if cost is None or not cost.first_cost_s:
        return 0.0
    return -kind.utility.slope_per_s / cost.first_cost_s
