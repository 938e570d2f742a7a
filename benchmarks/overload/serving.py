"""Serves more tasks than can be served, on virtual time, with the real planner.

Each task names its robot when it comes, the one with fewest open tasks, and queues behind what that
robot has. So whatever is refused, ordered or dropped, the planner does it.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from benchmarks.common import running_fleet
from benchmarks.workloads import NETWORK_S, TIMED, WORKLOADS, System, compose, plan_tokens
from timely_llm_ros.clock import LoopClock
from timely_llm_ros.engines.simulated import find_hardware
from timely_llm_ros.errors import TimelyError
from timely_llm_ros.planner import PlannerConfig, Task, TaskEnded
from timely_llm_ros.skills import Scene, SkillSet
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from timely_llm_ros.engines import Engine
    from timely_llm_ros.evaluation import Workload, WorkloadTask
    from timely_llm_ros.planner import Planner, PlannerEvent, TaskResult

_NOTHING = Scene(())


@dataclass(frozen=True, slots=True)
class Shape:
    """What robots, plans and prompts look like.

    Attributes:
        skill_set: What every robot can do.
        plan: Makes a task's plan, token by token.
        scene: Makes what the robot of a task knows, by the task's number.
    """

    skill_set: SkillSet = TIMED
    plan: Callable[[WorkloadTask], list[str]] = plan_tokens
    scene: Callable[[int], Scene] = lambda _: _NOTHING


_SHAPE = Shape()


@dataclass(frozen=True, slots=True)
class Way:
    """One way to serve.

    Attributes:
        system: The engine's side.
        drops: Whether tasks say that they want no answer that is worth nothing.
        config: The planner's side.
    """

    system: System
    drops: bool = False
    config: PlannerConfig = field(default_factory=PlannerConfig)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one task: its result, or why it was refused.

    ``promised_s`` is the response that nine of ten tasks that were told so should have.
    """

    task: WorkloadTask
    number: int
    robot: str
    result: TaskResult | None
    refusal: TimelyError | None = None
    promised_s: float | None = None

    @property
    def code(self) -> int:
        """The error code that its goal ended with; 0 for success."""
        if self.refusal is not None:
            return self.refusal.code
        return 0 if self.result is None else self.result.ending.code

    @property
    def kept(self) -> bool | None:
        """Whether its promise was kept; None where nothing was promised."""
        if self.promised_s is None:
            return None
        return self.response_s is not None and self.response_s <= self.promised_s

    @property
    def utility(self) -> float:
        """What it earned: 0 where its plan was not executed to the end."""
        return 0.0 if self.code or self.result is None else self.result.utility

    @property
    def response_s(self) -> float | None:
        """How long it took from when it came to its first action (s)."""
        return None if self.result is None else self.result.response_s


def overload(
    load: float, *, robots: int = 150, duration_s: float = 120.0, seed: int = 0
) -> Workload:
    """Draw a load: so many times WID2's bursts, with its mix.

    A fleet of fewer robots than WID2's has as many bursts less.
    """
    wid2 = WORKLOADS['wid2']
    return compose(
        replace(
            wid2,
            name='overload',
            events_per_s=load * wid2.events_per_s * min(1.0, robots / wid2.robots),
            robots=robots,
            duration_s=duration_s,
        ),
        seed,
    )


def serve(
    workload: Workload,
    way: Way,
    *,
    hardware: str = 'toy',
    shape: Shape = _SHAPE,
    on_event: Callable[[PlannerEvent], None] | None = None,
) -> list[Outcome]:
    """Serve a whole workload on virtual time; return what became of each task, in their order."""
    plans = {str(number): shape.plan(task) for number, task in enumerate(workload.tasks)}
    engine = way.system.engine(find_hardware(hardware), plans)
    return run_virtual(_Fleet(workload, way, shape, on_event).serve(engine))


def goodput(outcomes: Iterable[Outcome], duration_s: float) -> float:
    """Return the positive utility per second."""
    return sum(max(0.0, one.utility) for one in outcomes) / duration_s


class _Fleet:
    def __init__(
        self,
        workload: Workload,
        way: Way,
        shape: Shape,
        on_event: Callable[[PlannerEvent], None] | None,
    ) -> None:
        self._workload, self._way, self._on_event = workload, way, on_event
        self._shape = shape
        self._random = random.Random(f'robots of {workload.name}:{workload.seed}')
        self._open = {f'robot_{number}': 0 for number in range(workload.robots)}
        self._robot_of: dict[int, str] = {}
        self._found: dict[int, Outcome] = {}
        self._promised_s: dict[int, float] = {}
        self._all_ended = asyncio.Event()
        self._groups = {
            name: replace(utility, floor=0.0) if way.drops else utility
            for name, utility in workload.groups.items()
        }

    async def serve(self, engine: Engine) -> list[Outcome]:
        clock = LoopClock()
        tasks = self._workload.tasks
        config = replace(self._way.config, max_tokens=max(task.tokens for task in tasks) + 1)
        async with running_fleet(
            engine,
            self._open,
            self._shape.skill_set,
            clock,
            network_s=NETWORK_S,
            on_event=self._see,
            config=config,
        ) as planner:
            for number, task in enumerate(tasks):
                if task.at_s > clock.now():
                    await clock.sleep(task.at_s - clock.now())
                self._submit(planner, number, task)
            await self._all_ended.wait()
        return [self._found[number] for number in range(len(tasks))]

    def _submit(self, planner: Planner, number: int, task: WorkloadTask) -> None:
        least = min(self._open.values())
        robot = self._random.choice([name for name, count in self._open.items() if count == least])
        self._robot_of[number] = robot
        record = Task(
            str(number),
            robot,
            self._shape.skill_set.name,
            task.kind,
            self._shape.scene(number),
            self._groups[task.group],
            when_busy='queue',
            task_kind=task.kind,
        )
        try:
            prepared = planner.prepare(record)
        except TimelyError as err:
            # Its frames would keep all that the planner had at hand.
            self._end(Outcome(task, number, robot, None, err.with_traceback(None)))
            return
        self._open[robot] += 1
        if prepared.expected is not None:
            self._promised_s[number] = round(prepared.expected.promised_s, 6)
        planner.submit(prepared)

    def _see(self, event: PlannerEvent) -> None:
        if self._on_event is not None:
            self._on_event(event)
        if isinstance(event, TaskEnded):
            number = int(event.task_id)
            self._open[event.robot] -= 1
            self._end(
                Outcome(
                    self._workload.tasks[number],
                    number,
                    event.robot,
                    event.result,
                    promised_s=self._promised_s.get(number),
                )
            )

    def _end(self, outcome: Outcome) -> None:
        self._found[outcome.number] = outcome
        if len(self._found) == len(self._workload.tasks):
            self._all_ended.set()
