"""What the fleet is doing, kept up to date by events. Plain data, no ROS, no terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from timely_llm_ros.utility import TimeUtility

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(slots=True)
class RobotView:
    """One robot.

    Attributes:
        name: Its name.
        body: What its executor says: idle, executing, waiting, safe, lost, or unknown.
        call: Text of the call in hand.
        segment: Index of the segment in hand.
        plan: Id of its current task; empty without one.
        kind: Kind of its current task.
        instruction: Of its current task.
        utility: Time utility of its current task.
        received_s: When its current task was received.
        response_s: How long its current task took to its first action; None before that.
        generated: Segments generated for its current task.
        started: Segments started of its current task.
        done: Tasks that succeeded.
        failed: Tasks that did not.
        last_error: Why the latest of those did not.
    """

    name: str
    body: str = 'unknown'
    call: str = ''
    segment: int = 0
    plan: str = ''
    kind: str = ''
    instruction: str = ''
    utility: TimeUtility | None = None
    received_s: float = 0.0
    response_s: float | None = None
    generated: int = 0
    started: int = 0
    done: int = 0
    failed: int = 0
    last_error: str = ''

    @property
    def phase(self) -> str:
        """What it does, in one word."""
        if self.body in ('lost', 'unknown'):
            return self.body
        if not self.plan:
            return self.body if self.body == 'safe' else 'idle'
        if self.response_s is None:
            return 'generating'
        return self.body if self.body in ('executing', 'safe') else 'waiting'

    @property
    def next_ready(self) -> bool | None:
        """Whether it has a further segment at hand; None without a task."""
        return self.generated > self.started if self.plan else None

    def deadline_left_s(self, now_s: float) -> float | None:
        """Time until its task's expected response time (s); negative once it has passed.

        None without a task and after the robot has started.
        """
        if self.utility is None or self.response_s is not None:
            return None
        return self.utility.expected_response_s - (now_s - self.received_s)

    def utility_now(self, now_s: float) -> float | None:
        """Utility of its task: achieved, or what starting now would be worth; None without one."""
        if self.utility is None:
            return None
        waited_s = now_s - self.received_s if self.response_s is None else self.response_s
        return self.utility.first(waited_s)


@dataclass(slots=True)
class EngineView:
    """The engine: generations by phase, tokens of KV, duration of a step (s)."""

    engine: str = ''
    mode: str = ''
    policy: str = ''
    running: int = 0
    suspended: int = 0
    held: int = 0
    queued: int = 0
    kv_tokens: int = 0
    kv_capacity_tokens: int = 0
    step_s: float = 0.0


@dataclass(slots=True)
class FleetModel:
    """The fleet. :meth:`apply` takes the events of ``nodes/fleet_view.py`` in any order.

    Attributes:
        robots: By name, in the order of the view.
        engine: The engine.
        accepted: Tasks accepted.
        done: Tasks that succeeded.
        failed: Tasks that did not, refused ones included.
        responses_s: Response times so far.
        late: How many of those came after the expected response time.
    """

    robots: dict[str, RobotView]
    engine: EngineView = field(default_factory=EngineView)
    accepted: int = 0
    done: int = 0
    failed: int = 0
    responses_s: list[float] = field(default_factory=list)
    late: int = 0
    _ready: dict[str, int] = field(default_factory=dict)
    _queued: dict[str, RobotView] = field(default_factory=dict)

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
            case 'robot':
                robot = self.robots.get(event['robot'])
                if robot is not None:
                    robot.body, robot.call = event['phase'], event['call']
                    robot.segment = event['segment']
            case 'segment':
                plan = event['plan']
                self._ready[plan] = max(self._ready.get(plan, 0), event['index'] + 1)
                robot = self.robots.get(event['robot'])
                if robot is not None and robot.plan == plan:
                    robot.generated = self._ready[plan]
            case 'task':
                robot = self.robots.get(event['robot'])
                if robot is not None:
                    self._apply_task(robot, event, now_s)

    def _apply_task(self, robot: RobotView, event: Mapping[str, Any], now_s: float) -> None:
        plan = event['plan']
        match event['what']:
            case 'accepted':
                self.accepted += 1
                self._queued[plan] = RobotView(
                    robot.name,
                    plan=plan,
                    kind=event['kind'],
                    instruction=event['instruction'],
                    utility=_utility(event),
                    received_s=now_s - event['at_s'],
                )
                if not robot.plan:
                    self._begin(robot, plan)
            case 'refused':
                self.failed += 1
                robot.failed += 1
                robot.last_error = event['error']
            case 'segment_started':
                if robot.plan != plan and plan in self._queued:
                    self._begin(robot, plan)
                if robot.plan == plan:
                    robot.started = max(robot.started, event['segment'] + 1)
                    if robot.response_s is None:
                        robot.response_s = event['at_s']
                        self.responses_s.append(event['at_s'])
                        self.late += event['at_s'] > event['expected_response_s']
            case 'ended':
                self._end(robot, plan, event)

    def _begin(self, robot: RobotView, plan: str) -> None:
        task = self._queued.pop(plan)
        robot.plan, robot.kind, robot.instruction = plan, task.kind, task.instruction
        robot.utility, robot.received_s, robot.response_s = task.utility, task.received_s, None
        robot.generated, robot.started = self._ready.get(plan, 0), 0

    def _end(self, robot: RobotView, plan: str, event: Mapping[str, Any]) -> None:
        self._queued.pop(plan, None)
        self._ready.pop(plan, None)
        if event['error']:
            self.failed += 1
            robot.failed += 1
            robot.last_error = event['error']
        else:
            self.done += 1
            robot.done += 1
        if robot.plan != plan:
            return
        robot.plan = robot.kind = robot.instruction = ''
        robot.utility = robot.response_s = None
        waiting = [task.plan for task in self._queued.values() if task.name == robot.name]
        if waiting:
            self._begin(robot, waiting[0])


def _utility(event: Mapping[str, Any]) -> TimeUtility | None:
    values = (event['expected_response_s'], event['slope_per_s'], event['peak'])
    if not all(map(math.isfinite, values)) or values[2] <= 0 or values[1] > 0 or values[0] < 0:
        return None
    return TimeUtility(*values)
