"""Serves recorded tasks again: the real planner, and robots that only sleep.

With :func:`timed_skills` the planner expects of every segment what it expected in the recorded run,
and the robot takes as long as it took there.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError, TimelyError
from timely_llm_ros.execution import ExecutorLimits, LocalRobotLink, SegmentExecutor
from timely_llm_ros.planner import Planner, Task
from timely_llm_ros.skills import (
    ArgumentSpec,
    ConstantDuration,
    LinearDuration,
    PlanLimits,
    Skill,
    SkillSet,
)
from timely_llm_ros.utility import TimeUtility

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.engines import Engine, EngineInfo
    from timely_llm_ros.evaluation.what_if.observer import RunObserver
    from timely_llm_ros.evaluation.what_if.recorded import ReplayedTask
    from timely_llm_ros.execution import CallValue, Driver
    from timely_llm_ros.planner import PlannerConfig, TaskHandle
    from timely_llm_ros.skills import Call, Scene

LONGEST_S = 9999.0
"""A longer segment is taken to last this long (s)."""

_NO_LIMIT_S = 1e6

_DURATION = LinearDuration(0.0, {'expected': 1.0})

_TIMES = tuple(
    # Microseconds after the point: a replay's clock is finer than a millisecond.
    ArgumentSpec(name, 'number', 'ms', 0.0, 1000 * LONGEST_S)
    for name in ('expected', 'actual')
)


_WIDE = PlanLimits(
    segment_calls=1_000_000, segment_s=1e7, segment_length=16_384, plan_calls=1_000_000, plan_s=1e7
)
"""What was executed is replayed, whatever is allowed today."""


def timed_skills(name: str) -> SkillSet:
    """Return a stand-in for a recorded skill set, whose calls say how long they take."""
    skills = (
        Skill('do', 'act', _TIMES, _DURATION),
        Skill('ask', 'act and say what was seen', _TIMES, _DURATION, blocking=True, returns='bool'),
        Skill('halt', 'stop', (), ConstantDuration(0.0)),
    )
    return SkillSet(
        name=name,
        description='a robot that takes as long as a recorded one',
        skills={skill.name: skill for skill in skills},
        safe_action='halt',
        limits=_WIDE,
    )


def plan_tokens(task: ReplayedTask) -> list[str]:
    """Return, token by token, a plan that has the shape of the recorded one."""
    pieces: list[str] = []
    for segment in task.segments:
        skill = 'ask' if segment.awaits_value else 'do'
        text = f'{skill}({_ms(segment.expected_s)},{_ms(segment.execution_s)});'
        if segment.tokens:
            pieces += [''] * (segment.tokens - 1)
            pieces.append(text)
        else:
            pieces[-1] += text
    return pieces + [''] * task.end_tokens


def assigned_robots(tasks: Sequence[ReplayedTask], robots: int | None) -> list[tuple[str, ...]]:
    """Return for each task the robots that may do it; ``robots`` None keeps the recorded fleet.

    Raises:
        ConfigurationError: The fleet would be too small to have a robot of each kind.
    """
    if robots is None:
        return [(task.record.robot,) for task in tasks]
    members: dict[str, set[str]] = defaultdict(set)
    for task in tasks:
        members[task.record.skill_set].add(task.record.robot)
    if robots < len(members):
        raise ConfigurationError(
            f'{robots} robots: expected at least {len(members)}, one for each skill set of the '
            f'trace: {", ".join(sorted(members))}'
        )
    # Each kind gets one; the rest in the recorded proportions (Sainte-Lague).
    counts = dict.fromkeys(sorted(members), 1)
    for _ in range(robots - len(members)):
        kind = max(counts, key=lambda name: len(members[name]) / (counts[name] + 0.5))
        counts[kind] += 1
    names = {
        kind: tuple(f'{kind or "robot"}_{number + 1}' for number in range(count))
        for kind, count in counts.items()
    }
    return [names[task.record.skill_set] for task in tasks]


class ReplayDriver:
    """A robot that only sleeps: as long as the last argument of a call says (s)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def connect(self) -> None:
        """Do nothing: there is nothing to connect to."""

    async def close(self) -> None:
        """Do nothing: nothing is held."""

    async def execute(self, call: Call, scene: Scene) -> CallValue:  # noqa: ARG002 - Driver
        """Sleep as long as the recorded robot acted."""
        await self._clock.sleep(float(call.arguments[-1].value))
        return True if call.skill == 'ask' else None

    async def safe(self) -> None:
        """Do nothing: the robot does not move."""


@dataclass(slots=True)
class ReplayFleet:
    """Robots and a planner for one replay.

    Attributes:
        tasks: What to serve, in the order of acceptance.
        robots: For each task the robots that may do it: the one with fewest open tasks gets it.
        skill_sets: Those of the tasks, by name.
        make_driver: Makes the driver of the robot of that name and skill set.
        engine: What generates the plans.
        clock: What planner and robots see time through.
        config: The planner's.
        network_s: One-way time from the engine to a robot (s).
        take_over: Whether tasks that took over from others do so again; not on another fleet,
            where they may have another robot.
        observer: Gets every event.
        on_progress: Called about once a second with tasks ended and seconds passed.
    """

    tasks: Sequence[ReplayedTask]
    robots: Sequence[tuple[str, ...]]
    skill_sets: Mapping[str, SkillSet]
    make_driver: Callable[[str, SkillSet], Driver]
    engine: Engine
    clock: Clock
    config: PlannerConfig
    network_s: float
    take_over: bool
    observer: RunObserver
    on_progress: Callable[[int, float], None] | None = None
    _open: dict[str, int] = field(init=False, default_factory=lambda: defaultdict(int))

    async def serve(self) -> EngineInfo:
        """Serve every task to its end; return what the engine says of itself."""
        kinds = {
            name: self.skill_sets[task.skill_set]
            for task, names in zip(self.tasks, self.robots, strict=True)
            for name in names
        }
        executors = {name: self._executor(name, kind) for name, kind in kinds.items()}
        planner = Planner(
            engine=self.engine,
            robots={
                robot: LocalRobotLink(executor, self.clock, latency_s=self.network_s)
                for robot, executor in executors.items()
            },
            skill_sets=self.skill_sets,
            clock=self.clock,
            on_event=self.observer.on_planner_event,
            on_engine_event=self.observer.on_engine_event,
            config=self.config,
        )
        for executor in executors.values():
            await executor.start()
        try:
            info = await planner.start()
            start_s = self.clock.now()
            self.observer.begin(start_s)
            waiting: list[asyncio.Future[Any]] = []
            telling = asyncio.create_task(self._tell(waiting, start_s))
            for task, names in zip(self.tasks, self.robots, strict=True):
                await self.clock.sleep(start_s + task.record.received_s - self.clock.now())
                robot = min(names, key=self._open.__getitem__)
                handle = self._submit(planner, task, robot)
                if handle is not None:
                    waiting.append(asyncio.ensure_future(self._follow(handle, robot)))
            await asyncio.gather(*waiting)
            telling.cancel()
        finally:
            await planner.close()
            for executor in executors.values():
                await executor.close()
        return info

    def _executor(self, robot: str, skill_set: SkillSet) -> SegmentExecutor:
        # What a recorded robot took, it took: no call is too long.
        limits = ExecutorLimits(timeout_margin_s=_NO_LIMIT_S, idle_limit_s=_NO_LIMIT_S)
        return SegmentExecutor(self.make_driver(robot, skill_set), skill_set, self.clock, limits)

    def _submit(self, planner: Planner, task: ReplayedTask, robot: str) -> TaskHandle | None:
        record = task.record
        try:
            prepared = planner.prepare(
                Task(
                    record.plan_id,
                    robot,
                    task.skill_set,
                    record.instruction,
                    record.scene,
                    TimeUtility(record.expected_response_s, record.slope_per_s, record.peak),
                    time_budget_s=record.time_budget_s,
                    when_busy=task.when_busy if self.take_over else 'queue',
                    task_kind=record.kind,
                )
            )
        except TimelyError as err:
            self.observer.refused(task, robot, err)
            return None
        self._open[robot] += 1
        return planner.submit(prepared)

    async def _follow(self, handle: TaskHandle, robot: str) -> None:
        await handle.result()
        self._open[robot] -= 1

    async def _tell(self, waiting: Sequence[asyncio.Future[Any]], start_s: float) -> None:
        while self.on_progress is not None:
            self.on_progress(sum(one.done() for one in waiting), self.clock.now() - start_s)
            await self.clock.sleep(1.0)


def _ms(duration_s: float) -> str:
    return f'{1000 * min(max(duration_s, 0.0), LONGEST_S):.3f}'
