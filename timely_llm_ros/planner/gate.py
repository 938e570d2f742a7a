"""Whether a task is taken: what it can expect, and what others would earn in its place."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError, TaskRefusedError, WorthlessError
from timely_llm_ros.planner.worth import AdmissionState, Expectations, KindState, PlanCosts, Prices

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.engines import SegmentGenerated
    from timely_llm_ros.planner.config import PlannerConfig
    from timely_llm_ros.planner.robot_queue import RobotQueue
    from timely_llm_ros.planner.task import Task
    from timely_llm_ros.planner.task_run import TaskRun
    from timely_llm_ros.planner.worth import Expectation


AGE_BOUND_S = 30.0
"""Whoever has waited longer than this for its robot (s) goes first, so that nobody starves."""

TAKEOVER_MARGIN = 1.1
"""How much more, as a ratio, a task must earn than the one that it ends: what is expected of two of
a kind is never quite the same, and each would end the one before it."""

MOST_LABELS = 16
"""Kinds of tasks that the figures tell apart."""


class Gate:
    """Judges tasks when they come, and learns from those that were taken.

    Raises:
        ConfigurationError: A client's weight is not a number > 0.
    """

    def __init__(self, clock: Clock, config: PlannerConfig) -> None:
        weights = client_weights(config.client_weights)
        self._clock, self._refuses = clock, config.refuses_by_worth
        self._costs = PlanCosts()
        self._expectations = Expectations(self._costs)
        self._prices = Prices(self._costs, lambda client: weights.get(client, 1.0))
        self._spent_s: dict[str, float] = defaultdict(float)
        self._state = AdmissionState()

    @property
    def state(self) -> AdmissionState:
        """What was taken and refused so far, and what came of it."""
        self._state.demand = self.demand()
        return self._state

    def demand(self) -> float:
        """Return how much of the engine is asked for; above 1 it is more than there is."""
        return self._prices.demand(self._clock.now())

    def judge(self, task: Task, queue: RobotQueue | None) -> Expectation | None:
        """Return what a task can expect; None as long as no plan of its like was served.

        ``queue`` is what its robot has, None for nothing that it would wait for.

        Whoever has to wait for nobody is taken: nobody loses by trying, and what was learned under
        load is unlearned only by what is tried.

        Raises:
            TaskRefusedError: Its utility has a floor, and it is not expected to be worth more, or
                the engine time that it takes would earn more elsewhere.
        """
        now_s, utility = self._clock.now(), task.utility
        kind = task.skill_set, utility
        self._prices.note(now_s, task.client, kind)
        robot_s = 0.0 if queue is None else self._busy_s((queue.current, *queue.waiting), now_s)
        found = self._expectations.expect(*kind, now_s=now_s, robot_s=robot_s)
        if found is None or not self._refuses or utility.floor == -math.inf:
            return found
        if not (found.robot_s or self._expectations.pending):
            return found
        told = (
            f'a first action is expected after {found.response_s:.2f} s ({found.robot_s:.2f} s for '
            f'its robot, {found.engine_s:.2f} s for the engine), worth {found.utility:.2f}'
        )
        if found.utility <= utility.floor:
            self._state.refused['robot' if found.robot_s > found.engine_s else 'engine'] += 1
            raise TaskRefusedError(f'{told}: expected more than {utility.floor:g}')
        cost = self._costs.find(*kind)
        # Where nobody waits for the engine, nobody else would have it.
        cost_s = cost.plan_cost_s if cost is not None and self._expectations.pending else 0.0
        elsewhere = self._prices.price(now_s, task.client) * cost_s
        if elsewhere > 0.0 and found.utility < elsewhere * (1.0 - 1e-9):
            self._state.refused['price'] += 1
            raise TaskRefusedError(
                f'{told}: expected at least {elsewhere:.2f}, which the {1000 * cost_s:.0f} ms of '
                f'the engine that its plan takes earn elsewhere'
            )
        return found

    def takes_over(self, task: Task, queue: RobotQueue | None) -> bool:
        """Return whether a task takes its robot from the one that the robot has.

        It does where it asks for that and has no floor. With a floor it does where that earns
        clearly more than what it would end: what it gains by not waiting, against the utility of
        the other one, which is lost with its plan.
        """
        current = None if queue is None else queue.current
        if task.when_busy == 'queue' or current is None:
            return task.when_busy != 'queue'
        now_s, utility = self._clock.now(), task.utility
        kind = task.skill_set, utility
        if utility.floor == -math.inf or not self._refuses:
            return True
        busy_s = self._busy_s((current,), now_s)
        at_once = self._expectations.expect(*kind, now_s=now_s, robot_s=0.0)
        behind = self._expectations.expect(*kind, now_s=now_s, robot_s=busy_s)
        if at_once is None or behind is None:
            return True
        gain = at_once.utility - max(0.0, behind.utility)
        other_s = current.response_s
        if other_s is None:
            other_s = 0.0 if current.expected is None else current.expected.response_s
        return gain > TAKEOVER_MARGIN * max(0.0, current.task.utility.first(other_s))

    def rank(self, run: TaskRun) -> tuple[float, ...]:
        """Return the rank of a task that waits for its robot, higher first.

        Whoever can still earn comes before whoever cannot, and among their likes whoever loses most
        for each second that the robot then takes (Smith's rule). Whoever has waited longer than
        ``AGE_BOUND_S`` comes before all.
        """
        task = run.task
        utility, cost = task.utility, self._costs.find(task.skill_set, task.utility)
        waited_s = self._clock.now() - run.received_s
        first_s, robot_s = (0.0, 1.0) if cost is None else (cost.first_s, max(cost.robot_s, 1e-3))
        old = waited_s if waited_s > AGE_BOUND_S else 0.0
        earns = utility.first(waited_s + first_s) > 0
        return old, float(earns), -utility.slope_per_s / robot_s

    def accepted(self, run: TaskRun) -> None:
        """Note that a task was taken."""
        if run.expected is not None:
            task = run.task
            self._expectations.promise(task.task_id, task.skill_set, task.utility, run.expected)

    def began(self, run: TaskRun) -> None:
        """Note that its plan is being generated."""
        self._expectations.begin(run.task.task_id, run.task.skill_set, run.task.utility)

    def on_segment(self, event: SegmentGenerated, run: TaskRun | None) -> None:
        """Learn what a segment took of the engine."""
        if run is None:
            return
        name, first = event.generation_id, event.segment.index == 0
        self._spent_s[name] += event.cost_s
        self._expectations.spend(name, self._clock.now(), event.cost_s, first=first)
        if first:
            self._costs.observe_first(
                run.task.skill_set,
                run.task.utility,
                first_s=event.generation_s,
                cost_s=event.cost_s,
            )

    def on_plan(self, run: TaskRun) -> None:
        """Learn what a whole plan took of the engine."""
        task = run.task
        self._costs.observe_plan(task.skill_set, task.utility, self._spent_s[task.task_id])

    def ended(self, run: TaskRun) -> None:
        """Learn from how a task ended."""
        task, result = run.task, run.result.result()
        self._spent_s.pop(task.task_id, None)
        given_up = result.ending.code == WorthlessError.code
        response_s = self._clock.now() - run.received_s if given_up else result.response_s
        kept = self._expectations.end(task.task_id, response_s, given_up=given_up)
        self._state.worthless += given_up
        if kept is not None and response_s is not None and run.expected is not None:
            label = f'{task.skill_set}, expected within {task.utility.expected_response_s:g} s'
            kinds = self._state.kinds
            if label not in kinds and len(kinds) >= MOST_LABELS:
                label = 'others'
            one = kinds.setdefault(label, KindState())
            one.responses += 1
            one.in_time += response_s <= task.utility.expected_response_s
            one.kept += kept
            one.expected_s += run.expected.response_s
            one.achieved_s += response_s
        if result.ending.succeeded and result.response_s is not None:
            robot_s = result.completion_s - result.response_s
            self._costs.observe_run(task.skill_set, task.utility, robot_s)

    def _busy_s(self, runs: Iterable[TaskRun | None], now_s: float) -> float:
        """Return how long a robot is expected to be busy with what it has (s)."""
        busy_s = 0.0
        for run in runs:
            cost = None if run is None else self._costs.find(run.task.skill_set, run.task.utility)
            if run is None or cost is None:
                continue
            if run.response_s is None:
                busy_s += cost.first_s + cost.robot_s
            else:
                left_s = run.received_s + run.response_s + cost.robot_s - now_s
                busy_s += max(run.remaining_s, left_s)
        return busy_s


def client_weights(entries: Sequence[str]) -> dict[str, float]:
    """Return what clients count.

    Raises:
        ConfigurationError: An entry is not "name:weight" with a number > 0.
    """
    weights = {}
    for entry in entries:
        name, _, text = entry.rpartition(':')
        try:
            weights[name] = float(text)
        except ValueError:
            weights[name] = math.nan
        if not (name and 0 < weights[name] < math.inf):
            raise ConfigurationError(
                f'client weight {entry!r}: expected "name:weight", the weight a number > 0'
            )
    return weights
