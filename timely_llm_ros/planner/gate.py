"""Whether a task is taken: what it can expect, and what others would earn in its place."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from timely_llm_ros.errors import (
    ConfigurationError,
    InvalidTaskError,
    NotAllowedError,
    RobotUnavailableError,
    TaskRefusedError,
    TimelyError,
    WorthlessError,
)
from timely_llm_ros.planner.worth import (
    AdmissionState,
    Expectations,
    Kind,
    KindState,
    PlanCosts,
    Prices,
    RobotOutlook,
    RobotPrices,
    choose_robot,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.engines import SegmentGenerated
    from timely_llm_ros.execution import RobotLink
    from timely_llm_ros.planner.config import PlannerConfig
    from timely_llm_ros.planner.permission import AllowList
    from timely_llm_ros.planner.robot_queue import RobotQueue
    from timely_llm_ros.planner.task import Task
    from timely_llm_ros.planner.task_run import TaskRun
    from timely_llm_ros.planner.worth import Expectation
    from timely_llm_ros.skills import SkillSet


AGE_BOUND_S = 30.0
"""Whoever has waited longer than this for its robot (s) goes first, so that nobody starves."""

TAKEOVER_MARGIN = 1.1
"""How much more, as a ratio, a task must earn than the one that it ends: what is expected of two of
a kind is never quite the same, and each would end the one before it."""

HOPE = 0.6
"""Where the engine has time for all, a task is refused as late only if it would be late even where
the engine took this part of the time that is expected of it. Of those refused otherwise some would
have been in time, and one that is not is dropped before it costs anybody anything."""

MOST_LABELS = 16
"""Kinds of tasks that the figures tell apart."""


class Gate:
    """Judges tasks when they come, and learns from those that were taken.

    ``allows`` says which client may command which robot; None for every client every one.

    Raises:
        ConfigurationError: A client's weight is not a number > 0.
    """

    def __init__(
        self, clock: Clock, config: PlannerConfig, allows: AllowList | None = None
    ) -> None:
        self.configure(config)
        self._allows, self._clock = allows, clock
        self._costs = PlanCosts()
        self._expectations = Expectations(self._costs)
        self._prices = Prices(self._costs, self._weight)
        self._robot_prices = RobotPrices(self._costs, self._weight)
        self._spent_s: dict[str, float] = defaultdict(float)
        self._state = AdmissionState()

    def configure(self, config: PlannerConfig) -> None:
        """Judge by these options from now on.

        Raises:
            ConfigurationError: A client's weight is not a number > 0.
        """
        self._weights = client_weights(config.client_weights)
        self._refuses, self._most_queued = config.refuses_by_worth, config.max_queue_per_robot

    def _weight(self, client: str) -> float:
        return self._weights.get(client, 1.0)

    @property
    def state(self) -> AdmissionState:
        """What was taken and refused so far, and what came of it."""
        self._state.demand = self.demand()
        return self._state

    def demand(self) -> float:
        """Return how much of the engine is asked for; above 1 it is more than there is."""
        return self._prices.demand(self._clock.now())

    def require_allowed(self, task: Task) -> None:
        """Check that a task's client may command its robot.

        Raises:
            NotAllowedError: It may not.
        """
        if self._allows is not None:
            self._allows.require(task)

    def judge(self, task: Task, queue: RobotQueue | None) -> Expectation | None:
        """Return what a task can expect; None as long as no plan of its like was served.

        ``queue`` is what its robot has, None for nothing that it would wait for.

        Whoever has to wait for nobody is expected to be in time: what was learned under load is
        unlearned only by what is tried. Where no robot has a task, everybody is taken.

        Raises:
            TaskRefusedError: Its utility has a floor, and it is not expected to be worth more, or
                the time of engine and robot that it takes would earn more elsewhere.
        """
        now_s, utility = self._clock.now(), task.utility
        kind = kind_of(task)
        self._prices.note(now_s, task.client, kind)
        robot_s = 0.0
        if queue is not None and not queue.empty:
            self._robot_prices.note(now_s, task.client, kind)
            robot_s = self._busy_s((queue.current, *queue.waiting), now_s)
        found = self._expectations.expect(kind, now_s=now_s, robot_s=robot_s)
        cost = self._costs.find(kind)
        if found is None or cost is None or not self._refuses or utility.floor == -math.inf:
            return found
        if self._robot_prices.idle:
            return found
        waits = found.robot_s > 0 or self._expectations.pending > 0
        hope = HOPE if self.demand() <= 1.0 else 1.0
        hoped_s = found.robot_s + hope * max(0.0, found.response_s - found.robot_s)
        told = (
            f'a first action is expected after {found.response_s:.2f} s ({found.robot_s:.2f} s for '
            f'its robot, {found.engine_s:.2f} s for the engine), worth {found.utility:.2f}'
        )
        if waits and utility.first(hoped_s) <= utility.floor:
            self._state.refused['robot' if found.robot_s > found.engine_s else 'engine'] += 1
            raise TaskRefusedError(
                f'{told}: expected more than {utility.floor:g} after {hoped_s:.2f} s'
            )
        # Where nobody waits for the engine, nobody else would have it.
        engine_s = cost.plan_cost_s if self._expectations.pending else 0.0
        elsewhere = self._prices.price(now_s, task.client) * engine_s
        elsewhere += self._robot_prices.price(now_s, task.client, task.skill_set) * cost.busy_s
        if elsewhere > 0.0 and found.utility < elsewhere * (1.0 - 1e-9):
            self._state.refused['price'] += 1
            raise TaskRefusedError(
                f'{told}: expected at least {elsewhere:.2f}, which what its plan takes, '
                f'{1000 * engine_s:.0f} ms of the engine and {cost.busy_s:.1f} s of its robot, '
                f'earns elsewhere'
            )
        return found

    def choose(
        self,
        task: Task,
        robots: Mapping[str, RobotLink],
        queues: Mapping[str, RobotQueue],
        distance_m: Callable[[str], float | None],
    ) -> Task:
        """Return a task with the robot that is expected to earn most by it.

        Raises:
            NotAllowedError: Its client may command none of them.
            RobotUnavailableError: None of those is there, released and has room for it.
        """
        found: dict[str, tuple[Task, RobotOutlook]] = {}
        faults: list[TimelyError] = []
        for robot, skill_set in ((task.robot, task.skill_set), *task.alternatives):
            one = replace(task, robot=robot, skill_set=skill_set, alternatives=())
            queue = queues.get(robot)
            try:
                self.require_allowed(one)
                require_robot(robots, robot)
                self.require_room(robot, queue)
            except TimelyError as err:
                faults.append(err)
            else:
                found[robot] = one, self.outlook(one, queue, distance_m(robot))
        if not found:
            forbidden = all(isinstance(fault, NotAllowedError) for fault in faults)
            error = NotAllowedError if forbidden else RobotUnavailableError
            raise error(f'no robot can take it: {"; ".join(map(str, faults))[:1000]}')
        robot, why = choose_robot([outlook for _, outlook in found.values()])
        return replace(found[robot][0], why_robot=why)

    def require_room(self, robot: str, queue: RobotQueue | None) -> None:
        """Check that one more task may wait for a robot.

        Raises:
            TaskRefusedError: Too many do.
        """
        if queue is None or queue.current is None:
            return
        if len(queue.waiting) >= self._most_queued:
            raise TaskRefusedError(
                f'robot {robot!r} has {len(queue.waiting)} tasks queued: '
                f'expected less than {self._most_queued}'
            )

    def outlook(
        self, task: Task, queue: RobotQueue | None, distance_m: float | None = None
    ) -> RobotOutlook:
        """Return what a task can expect of its robot, without taking note of it."""
        now_s = self._clock.now()
        has = [] if queue is None else [run for run in (queue.current, *queue.waiting) if run]
        busy_s = self._busy_s(has, now_s)
        found = self._expectations.expect(kind_of(task), now_s=now_s, robot_s=busy_s)
        utility = task.utility.first(busy_s) if found is None else found.utility
        return RobotOutlook(task.robot, utility, busy_s, len(has), distance_m)

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
        kind = kind_of(task)
        if utility.floor == -math.inf or not self._refuses:
            return True
        busy_s = self._busy_s((current,), now_s)
        at_once = self._expectations.expect(kind, now_s=now_s, robot_s=0.0)
        behind = self._expectations.expect(kind, now_s=now_s, robot_s=busy_s)
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
        utility, cost = task.utility, self._costs.find(kind_of(task))
        waited_s = self._clock.now() - run.received_s
        first_s, robot_s = (0.0, 1.0) if cost is None else (cost.first_s, max(cost.robot_s, 1e-3))
        old = waited_s if waited_s > AGE_BOUND_S else 0.0
        earns = utility.first(waited_s + first_s) > 0
        return old, float(earns), -utility.slope_per_s / robot_s

    def accepted(self, run: TaskRun) -> None:
        """Note that a task was taken."""
        self._robot_prices.take(self._clock.now(), run.task.skill_set, run.task.robot)
        if run.expected is not None:
            task = run.task
            self._expectations.promise(task.task_id, kind_of(task), run.expected)

    def began(self, run: TaskRun) -> None:
        """Note that its plan is being generated."""
        self._expectations.begin(run.task.task_id, kind_of(run.task))

    def on_segment(self, event: SegmentGenerated, run: TaskRun | None) -> None:
        """Learn what a segment took of the engine."""
        if run is None:
            return
        name, first = event.generation_id, event.segment.index == 0
        self._spent_s[name] += event.cost_s
        self._expectations.spend(name, self._clock.now(), event.cost_s, first=first)
        if first:
            self._costs.observe_first(
                kind_of(run.task), first_s=event.generation_s, cost_s=event.cost_s
            )

    def on_plan(self, run: TaskRun) -> None:
        """Learn what a whole plan took of the engine."""
        task = run.task
        self._costs.observe_plan(kind_of(task), self._spent_s[task.task_id])

    def ended(self, run: TaskRun) -> None:
        """Learn from how a task ended."""
        task, result = run.task, run.result.result()
        self._spent_s.pop(task.task_id, None)
        self._robot_prices.end(self._clock.now(), task.skill_set, task.robot)
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
            self._costs.observe_run(kind_of(task), robot_s)

    def _busy_s(self, runs: Iterable[TaskRun | None], now_s: float) -> float:
        """Return how long a robot is expected to be busy with what it has (s)."""
        busy_s = 0.0
        for run in runs:
            cost = None if run is None else self._costs.find(kind_of(run.task))
            if run is None or cost is None:
                continue
            if run.generated:
                busy_s += run.remaining_s
            elif run.response_s is None:
                busy_s += cost.first_s + cost.robot_s
            else:
                left_s = run.received_s + run.response_s + cost.robot_s - now_s
                busy_s += max(run.remaining_s, left_s)
        return busy_s


def kind_of(task: Task) -> Kind:
    """Return the kind of tasks that one costs alike."""
    return Kind(task.skill_set, task.utility, task.task_kind)


def require_known(
    task: Task, robots: Mapping[str, object], skill_sets: Mapping[str, SkillSet]
) -> SkillSet:
    """Return a task's skill set.

    Raises:
        InvalidTaskError: Its robot or its skill set is not known.
    """
    if task.robot not in robots:
        raise InvalidTaskError(f'robot {task.robot!r}: expected {_one_of(robots)}')
    skill_set = skill_sets.get(task.skill_set)
    if skill_set is None:
        raise InvalidTaskError(f'skill set {task.skill_set!r}: expected {_one_of(skill_sets)}')
    return skill_set


def _one_of(names: Mapping[str, object]) -> str:
    return f'one of {", ".join(map(repr, sorted(names)))}' if names else 'none is known yet'


def require_robot(robots: Mapping[str, RobotLink], robot: str) -> RobotLink:
    """Return the link of a robot that takes tasks.

    Raises:
        RobotUnavailableError: Its executor does not answer or is not active, or it is halted.
    """
    link = robots.get(robot)
    if link is None or not link.available:
        raise RobotUnavailableError(
            f'robot {robot!r}: its executor does not answer, expected it to'
        )
    if link.halted:
        raise RobotUnavailableError(f'robot {robot!r} is halted: expected its release')
    if link.inactive:
        raise RobotUnavailableError(f'robot {robot!r}: expected its executor to be active')
    return link


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
