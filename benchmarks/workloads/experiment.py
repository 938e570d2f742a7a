"""Serves a workload with the real planner on virtual time and says how every task fared.

The planner, the scheduler, the segmenter and the executors are those that run on robots; only the
engine's step time comes from a formula and the robots only sleep. Equal seeds give equal results.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.common import running_fleet
from benchmarks.workloads.replicas import Replicas
from timely_llm_ros.clock import LoopClock
from timely_llm_ros.engines.simulated import SimulatedConfig, SimulatedEngine, find_hardware
from timely_llm_ros.errors import TimelyError
from timely_llm_ros.planner import Planner, PlannerConfig, Task, TaskEnded
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.skills import Scene
from timely_llm_ros.skills.loading import parse_skill_set
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from timely_llm_ros.engines import Engine, EngineEvent, GenerationRequest
    from timely_llm_ros.engines.simulated import Hardware
    from timely_llm_ros.evaluation import Workload, WorkloadTask
    from timely_llm_ros.planner import PlannerEvent, TaskResult
    from timely_llm_ros.scheduling import ServingMode

NETWORK_S = 0.008
"""One-way time from the engine to a robot (s): TimelyLLM, section 7.1."""

TIMED = parse_skill_set(
    """
name: timed
description: a robot whose actions take as long as the plan says
safe_action: halt
skills:
  act:
    description: act for that long
    arguments: {duration: {kind: int, unit: ms, minimum: 0, maximum: 1000000}}
    duration: {model: linear, base_s: 0.0, per: {duration: 1.0}}
  halt:
    description: stop
    duration: {model: constant, seconds: 0.0}
""",
    'benchmarks.workloads.experiment',
)
"""The skill set of a workload's robots."""

_NOTHING = Scene(())


@dataclass(frozen=True, slots=True)
class System:
    """One way to serve a workload.

    Attributes:
        name: What tables call it.
        mode: The serving mode.
        policy: Name of the policy in mode ``segmented``.
        max_running: Most generations in one engine step.
        scheduling: Further options of the scheduler.
        max_kv_tokens: Most tokens whose KV is held; None for what the hardware has room for.
        host_kv_tokens: Room for KV in the host's memory (tokens).
    """

    name: str
    mode: ServingMode = 'segmented'
    policy: str = 'utility'
    max_running: int = 8
    scheduling: SchedulingOptions = field(default_factory=SchedulingOptions)
    max_kv_tokens: int | None = None
    host_kv_tokens: int = 0

    def engine(self, hardware: Hardware, plans: Mapping[str, Sequence[str]]) -> SimulatedEngine:
        """Return the engine that writes these plans, token by token, by their generations' ids."""
        return SimulatedEngine(self.config(hardware, plans))

    def config(self, hardware: Hardware, plans: Mapping[str, Sequence[str]]) -> SimulatedConfig:
        """Return the options of the engine that writes these plans."""

        def plan_of(request: GenerationRequest) -> Sequence[str]:
            return plans[request.generation_id]

        return SimulatedConfig(
            plan_text=plan_of,
            step_time=hardware.step_time,
            mode=self.mode,
            policy=self.policy,
            max_running=self.max_running,
            max_kv_tokens=self.max_kv_tokens or hardware.kv_capacity_tokens,
            host_kv_tokens=self.host_kv_tokens,
            scheduling=self.scheduling,
        )


@dataclass(frozen=True, slots=True)
class ServedTask:
    """How one task fared.

    Attributes:
        task: The task.
        robot: Who did it.
        queued_s: How long it waited for a free robot (s).
        result: What the planner reports; its times count from when the task came.
    """

    task: WorkloadTask
    robot: str
    queued_s: float
    result: TaskResult


def run_workload(
    workload: Workload,
    system: System,
    *,
    hardware: str = 'toy',
    network_s: float = NETWORK_S,
    on_event: Callable[[PlannerEvent], None] | None = None,
    from_free_robot: bool = False,
    on_engine_event: Callable[[EngineEvent], None] | None = None,
    replicas: int = 0,
    planners: int = 1,
) -> tuple[ServedTask, ...]:
    """Serve a whole workload on virtual time; return a record of each task, in the given order.

    Each task goes to a robot drawn from the free ones, and waits where none is free.

    Args:
        workload: What to serve.
        system: How to serve it.
        hardware: Name of the preset that says how long engine steps take.
        network_s: One-way time from the engine to a robot (s).
        on_event: Called with every planner event.
        from_free_robot: Whether a task comes only once a robot is free for it, so that the wait
            for one counts nowhere. Only to compare with a simulation that counts so.
        on_engine_event: Called with every event of the planners' engines.
        replicas: How many replicas of the engine ``ray`` serve; 0 for one engine and no Ray.
        planners: How many planners share the replicas, each with a share of the robots.

    Raises:
        ConfigurationError: An option is not known or out of range.
        TimelyError: A task ended with an error, which a simulated one never should.
    """
    plans = {str(number): plan_tokens(task) for number, task in enumerate(workload.tasks)}
    config = system.config(find_hardware(hardware), plans)
    make = Replicas(config, replicas).engine if replicas else partial(SimulatedEngine, config)
    engines = [make() for _ in range(planners)]
    return run_virtual(
        serve_workload(
            workload,
            engines,
            network_s=network_s,
            on_event=on_event,
            from_free_robot=from_free_robot,
            on_engine_event=on_engine_event,
        )
    )


async def serve_workload(
    workload: Workload,
    engines: Sequence[Engine],
    *,
    network_s: float = NETWORK_S,
    on_event: Callable[[PlannerEvent], None] | None = None,
    from_free_robot: bool = False,
    on_engine_event: Callable[[EngineEvent], None] | None = None,
) -> tuple[ServedTask, ...]:
    """Serve a workload as :func:`run_workload` does, on the loop's time and on any engines.

    Args:
        engines: One for each planner; planners have a share of the robots each.
    """
    fleet = _Fleet(workload, engines, network_s, on_event, from_free_robot, on_engine_event)
    return await fleet.serve()


def plan_tokens(task: WorkloadTask) -> list[str]:
    """Return a plan of the task's shape, token by token."""
    pieces: list[str] = []
    for shape in task.segments:
        pieces += [''] * (shape.tokens - 1)
        pieces.append(f'act({round(shape.execution_s * 1000)});')
    return pieces


class _Fleet:
    """A workload's robots and planners for one run; planners with one engine each."""

    def __init__(
        self,
        workload: Workload,
        engines: Sequence[Engine],
        network_s: float,
        on_event: Callable[[PlannerEvent], None] | None,
        from_free_robot: bool,
        on_engine_event: Callable[[EngineEvent], None] | None,
    ) -> None:
        self._workload, self._network_s, self._on_event = workload, network_s, on_event
        self._engines, self._from_free_robot = engines, from_free_robot
        self._on_engine_event = on_engine_event
        self._random = random.Random(f'robots of {workload.name}:{workload.seed}')
        self._free = [f'robot_{number}' for number in range(workload.robots)]
        self._planners: dict[str, Planner] = {}
        self._start_s = 0.0
        self._pending: deque[int] = deque()
        self._begun: dict[str, tuple[str, float]] = {}
        self._records: dict[int, ServedTask] = {}
        self._all_ended = asyncio.Event()

    async def serve(self) -> tuple[ServedTask, ...]:
        clock = LoopClock()
        most = max((task.tokens for task in self._workload.tasks), default=1)
        async with AsyncExitStack() as stack:
            for number, engine in enumerate(self._engines):
                share = self._free[number :: len(self._engines)]
                running = running_fleet(
                    engine,
                    share,
                    TIMED,
                    clock,
                    network_s=self._network_s,
                    on_event=self._see,
                    on_engine_event=self._on_engine_event,
                    config=PlannerConfig(max_tokens=most + 1),
                )
                planner = await stack.enter_async_context(running)
                self._planners.update(dict.fromkeys(share, planner))
            # In real time the start takes a while, which is no part of the workload.
            self._start_s = clock.now()
            for number, task in enumerate(self._workload.tasks):
                # Tasks of one moment come in one go: the engine must not begin in between.
                if (wait_s := self._came_s(task) - clock.now()) > 0:
                    await clock.sleep(wait_s)
                self._pending.append(number)
                self._assign()
            if self._workload.tasks:
                await self._all_ended.wait()
        return tuple(self._records[number] for number in range(len(self._workload.tasks)))

    def _assign(self) -> None:
        """Give tasks to free robots."""
        now_s = asyncio.get_running_loop().time()
        while self._pending and self._free:
            number = self._pending.popleft()
            task = self._workload.tasks[number]
            robot = self._free.pop(self._random.randrange(len(self._free)))
            self._begun[str(number)] = robot, now_s
            planner = self._planners[robot]
            planner.submit(
                planner.prepare(
                    Task(
                        str(number),
                        robot,
                        TIMED.name,
                        task.kind,
                        _NOTHING,
                        self._workload.groups[task.group],
                        task_kind=task.kind,
                    )
                ),
                received_s=None if self._from_free_robot else self._came_s(task),
            )

    def _came_s(self, task: WorkloadTask) -> float:
        return self._start_s + task.at_s

    def _see(self, event: PlannerEvent) -> None:
        if self._on_event is not None:
            self._on_event(event)
        if isinstance(event, TaskEnded):
            self._end(event)

    def _end(self, event: TaskEnded) -> None:
        number = int(event.task_id)
        robot, begun_s = self._begun.pop(event.task_id)
        task = self._workload.tasks[number]
        queued_s = begun_s - self._came_s(task)
        self._records[number] = ServedTask(task, robot, queued_s, event.result)
        self._free.append(robot)
        if len(self._records) == len(self._workload.tasks):
            self._all_ended.set()
        elif self._pending:
            # The planner forgets the task only after this event.
            asyncio.get_running_loop().call_soon(self._assign)


def check_all_succeeded(records: tuple[ServedTask, ...]) -> None:
    """Raise if a task did not succeed.

    Raises:
        TimelyError: Names the first such task and its error.
    """
    for number, record in enumerate(records):
        if not record.result.ending.succeeded:
            raise TimelyError(f'task {number}, {record.task.kind}: {record.result.ending.message}')
