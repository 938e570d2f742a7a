"""Runs recorded tasks again: the real planner on virtual time, robots that only sleep.

The planner expects of every segment what it expected in the recorded run, and the robot takes as
long as it took there: what was known and what was not stays the same.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from timely_llm_ros.clock import LoopClock
from timely_llm_ros.errors import ConfigurationError, TimelyError
from timely_llm_ros.execution import ExecutorLimits, LocalRobotLink, SegmentExecutor
from timely_llm_ros.planner import Planner, PlannerConfig, Task
from timely_llm_ros.skills import ArgumentSpec, ConstantDuration, LinearDuration, Skill, SkillSet
from timely_llm_ros.utility import TimeUtility

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.engines import Engine
    from timely_llm_ros.evaluation.what_if.observer import RunObserver
    from timely_llm_ros.evaluation.what_if.recorded import ReplayedTask
    from timely_llm_ros.execution import CallValue
    from timely_llm_ros.planner import TaskHandle
    from timely_llm_ros.skills import Call, Scene

LONGEST_S = 9999.0
"""Longer segments are taken to last so long (s)."""

_NO_LIMIT_S = 1e6

_DURATION = LinearDuration(0.0, {'expected': 1.0})

_TIMES = tuple(
    # Microseconds after the point: a replay's clock is finer than a millisecond.
    ArgumentSpec(name, 'number', 'ms', 0.0, 1000 * LONGEST_S)
    for name in ('expected', 'actual')
)


def timed_skills(name: str) -> SkillSet:
    """Return the skill set that stands for a recorded one: its calls say how long they take."""
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
    )


def plan_tokens(task: ReplayedTask) -> list[str]:
    """Return a plan of the recorded one's shape, token by token; the last one ends it."""
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
    """Return for each task the robots that may do it.

    Args:
        tasks: The tasks.
        robots: Size of the fleet; None for the recorded one, in which each task has its robot.

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
    """A robot whose calls take the time that their last argument says."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def connect(self) -> None:
        """Nothing is there to connect to."""

    async def close(self) -> None:
        """Nothing is held."""

    async def execute(self, call: Call, scene: Scene) -> CallValue:  # noqa: ARG002 - Driver
        """Sleep as long as the recorded robot acted."""
        await self._clock.sleep(float(call.arguments[-1].value))
        return True if call.skill == 'ask' else None

    async def safe(self) -> None:
        """It does nothing anyway."""


class ReplayFleet:
    """Robots and a planner for one replay.

    Args:
        tasks: What to serve, in the order of acceptance.
        robots: For each task the robots that may do it: the one with fewest open tasks gets it.
        engine: Generates; must write ``plan_tokens`` of the task named by a generation's id.
        network_s: One-way time from the engine to a robot (s).
        take_over: Whether tasks that took over from others do so again; not on another fleet,
            where they may have another robot.
        observer: Gets every event.
    """

    def __init__(
        self,
        tasks: Sequence[ReplayedTask],
        robots: Sequence[tuple[str, ...]],
        engine: Engine,
        *,
        network_s: float,
        take_over: bool,
        observer: RunObserver,
    ) -> None:
        self._tasks, self._robots, self._engine = tasks, robots, engine
        self._network_s, self._take_over, self._observer = network_s, take_over, observer
        self._open: dict[str, int] = dict.fromkeys(
            dict.fromkeys(name for names in robots for name in names), 0
        )

    async def serve(self) -> None:
        """Serve every task to its end. Runs on a virtual-time loop from time 0."""
        clock = LoopClock()
        skill_sets = {
            name: timed_skills(name) for name in sorted({_skill_set(task) for task in self._tasks})
        }
        executors = self._executors(skill_sets, clock)
        planner = Planner(
            engine=self._engine,
            robots={
                robot: LocalRobotLink(executor, clock, latency_s=self._network_s)
                for robot, executor in executors.items()
            },
            skill_sets=skill_sets,
            clock=clock,
            on_event=self._observer.on_planner_event,
            on_engine_event=self._observer.on_engine_event,
            config=PlannerConfig(
                max_queue_per_robot=len(self._tasks),
                max_tokens=1 + max(len(plan_tokens(task)) for task in self._tasks),
            ),
        )
        for executor in executors.values():
            await executor.start()
        await planner.start()
        try:
            waiting = []
            for task, names in zip(self._tasks, self._robots, strict=True):
                await clock.sleep(task.record.received_s - clock.now())
                robot = min(names, key=self._open.__getitem__)
                handle = self._submit(planner, task, robot)
                if handle is not None:
                    waiting.append(asyncio.ensure_future(self._follow(handle, robot)))
            await asyncio.gather(*waiting)
        finally:
            await planner.close()
            for executor in executors.values():
                await executor.close()

    def _executors(
        self, skill_sets: Mapping[str, SkillSet], clock: Clock
    ) -> dict[str, SegmentExecutor]:
        kinds = {
            name: skill_sets[_skill_set(task)]
            for task, names in zip(self._tasks, self._robots, strict=True)
            for name in names
        }
        return {
            name: SegmentExecutor(
                ReplayDriver(clock),
                skill_set,
                clock,
                # What a recorded robot took, it took: no call is too long.
                ExecutorLimits(timeout_margin_s=_NO_LIMIT_S, idle_limit_s=_NO_LIMIT_S),
            )
            for name, skill_set in kinds.items()
        }

    def _submit(self, planner: Planner, task: ReplayedTask, robot: str) -> TaskHandle | None:
        record = task.record
        try:
            prepared = planner.prepare(
                Task(
                    record.plan_id,
                    robot,
                    _skill_set(task),
                    record.instruction,
                    record.scene,
                    TimeUtility(record.expected_response_s, record.slope_per_s, record.peak),
                    time_budget_s=record.time_budget_s,
                    when_busy=task.when_busy if self._take_over else 'queue',
                    task_kind=record.kind,
                )
            )
        except TimelyError as err:
            self._observer.refused(task, robot, err)
            return None
        self._open[robot] += 1
        return planner.submit(prepared)

    async def _follow(self, handle: TaskHandle, robot: str) -> None:
        await handle.result()
        self._open[robot] -= 1


def _skill_set(task: ReplayedTask) -> str:
    return task.record.skill_set or 'robot'


def _ms(duration_s: float) -> str:
    return f'{1000 * min(max(duration_s, 0.0), LONGEST_S):.3f}'
