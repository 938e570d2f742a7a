"""What the fleet is doing, kept up to date by events: plain data, no ROS, no terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from timely_llm_ros.utility import TimeUtility

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(slots=True)
class TaskView:
    """One task.

    Attributes:
        plan: Its id.
        utility: Its time utility; None where the planner names none that is valid.
        response_s: How long it took to its first action; None before that.
        generated: How many segments are generated.
        started: How many segments were started.
    """

    robot: str
    plan: str
    kind: str
    utility: TimeUtility | None
    received_s: float
    response_s: float | None = None
    generated: int = 0
    started: int = 0

    @property
    def next_ready(self) -> bool:
        """Whether a further segment is at hand."""
        return self.generated > self.started

    def deadline_left_s(self, now_s: float) -> float | None:
        """Time until its expected response time (s); None after its robot has started.

        It is negative once that time has passed.
        """
        if self.utility is None or self.response_s is not None:
            return None
        return self.utility.expected_response_s - (now_s - self.received_s)

    def utility_now(self, now_s: float) -> float | None:
        """Its utility: achieved, or what starting now would be worth."""
        if self.utility is None:
            return None
        waited_s = now_s - self.received_s if self.response_s is None else self.response_s
        return self.utility.first(waited_s)


@dataclass(slots=True)
class RobotView:
    """One robot.

    Attributes:
        body: What its executor says: idle, executing, waiting, safe, lost, or unknown.
        call: Text of the call in hand.
        done: How many of its tasks succeeded.
        failed: How many did not.
    """

    name: str
    body: str = 'unknown'
    call: str = ''
    task: TaskView | None = None
    done: int = 0
    failed: int = 0

    @property
    def phase(self) -> str:
        """What it does, in one word."""
        if self.body in ('lost', 'unknown'):
            return self.body
        if self.task is None:
            return self.body if self.body == 'safe' else 'idle'
        if self.task.response_s is None:
            return 'generating'
        return self.body if self.body in ('executing', 'safe') else 'waiting'


@dataclass(slots=True)
class EngineView:
    """The engine: how many generations are in each phase, tokens of KV, duration of a step."""

    engine: str = ''
    mode: str = ''
    running: int = 0
    suspended: int = 0
    held: int = 0
    queued: int = 0
    kv_tokens: int = 0
    kv_capacity_tokens: int = 0
    step_s: float = 0.0


@dataclass(slots=True)
class FleetModel:
    """The fleet. :meth:`apply` takes the events of ``nodes/fleet`` in any order.

    Attributes:
        robots: By name, in the order of the view.
        engine: The engine.
        done: Tasks that succeeded.
        responses_s: Response times so far.
        late: How many of those came after the expected response time.
    """

    robots: dict[str, RobotView]
    engine: EngineView = field(default_factory=EngineView)
    done: int = 0
    responses_s: list[float] = field(default_factory=list)
    late: int = 0
    _ready: dict[str, int] = field(default_factory=dict)
    _queued: dict[str, TaskView] = field(default_factory=dict)

    @classmethod
    def of(cls, names: Iterable[str]) -> FleetModel:
        """Return the model of a fleet of which nothing is known yet."""
        return cls({name: RobotView(name) for name in names})

    @property
    def all_seen(self) -> bool:
        """Whether every robot's executor was heard."""
        return all(robot.body != 'unknown' for robot in self.robots.values())

    def apply(self, event: Mapping[str, Any], now_s: float) -> None:
        """Take one event; one of an unknown sort or robot changes nothing."""
        match event.get('event'):
            case 'scheduler':
                self.engine = EngineView(**{name: event[name] for name in EngineView.__slots__})
            case 'robot' if (robot := self.robots.get(event['robot'])) is not None:
                robot.body, robot.call = event['phase'], event['call']
            case 'segment':
                plan = event['plan']
                self._ready[plan] = max(self._ready.get(plan, 0), event['index'] + 1)
                robot = self.robots.get(event['robot'])
                if robot is not None and robot.task is not None and robot.task.plan == plan:
                    robot.task.generated = self._ready[plan]
            case 'task' if (robot := self.robots.get(event['robot'])) is not None:
                self._apply_task(robot, event, now_s)

    def _apply_task(self, robot: RobotView, event: Mapping[str, Any], now_s: float) -> None:
        plan = event['plan']
        match event['what']:
            case 'accepted':
                received_s = now_s - event['at_s']
                task = TaskView(robot.name, plan, event['kind'], _utility(event), received_s)
                self._queued[plan] = task
                if robot.task is None:
                    self._begin(robot, plan)
            case 'refused':
                robot.failed += 1
            case 'segment_started':
                if (robot.task is None or robot.task.plan != plan) and plan in self._queued:
                    self._begin(robot, plan)
                task_now = robot.task
                if task_now is None or task_now.plan != plan:
                    return
                task_now.started = max(task_now.started, event['segment'] + 1)
                if task_now.response_s is None:
                    task_now.response_s = event['at_s']
                    self.responses_s.append(event['at_s'])
                    self.late += event['at_s'] > event['expected_response_s']
            case 'ended':
                self._end(robot, plan, failed=bool(event['error']))

    def _begin(self, robot: RobotView, plan: str) -> None:
        robot.task = self._queued.pop(plan)
        robot.task.generated = self._ready.get(plan, 0)

    def _end(self, robot: RobotView, plan: str, *, failed: bool) -> None:
        self._queued.pop(plan, None)
        self._ready.pop(plan, None)
        if failed:
            robot.failed += 1
        else:
            self.done += 1
            robot.done += 1
        if robot.task is None or robot.task.plan != plan:
            return
        robot.task = None
        waiting = [task.plan for task in self._queued.values() if task.robot == robot.name]
        if waiting:
            self._begin(robot, waiting[0])


def _utility(event: Mapping[str, Any]) -> TimeUtility | None:
    values = (event['expected_response_s'], event['slope_per_s'], event['peak'])
    if not all(map(math.isfinite, values)) or values[2] <= 0 or values[1] > 0 or values[0] < 0:
        return None
    return TimeUtility(*values)
