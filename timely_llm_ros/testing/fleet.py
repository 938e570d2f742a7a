"""A whole fleet for one test: a planner, its engine and its robots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from timely_llm_ros.clock import LoopClock
from timely_llm_ros.execution import LocalRobotLink, SegmentExecutor
from timely_llm_ros.planner import Planner, Task
from timely_llm_ros.testing.exact_skills import EXACT_SCENE, EXACT_SKILLS
from timely_llm_ros.testing.recording_driver import Note, RecordingDriver
from timely_llm_ros.testing.scripted_engine import Script, ScriptedEngine, by_instruction
from timely_llm_ros.utility import NORMAL, TimeUtility
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from timely_llm_ros.engines import Engine, GenerationRequest
    from timely_llm_ros.execution import Driver
    from timely_llm_ros.planner import PlannerEvent, TaskFeedback, TaskHandle
    from timely_llm_ros.skills import Scene, SkillSet


@dataclass(slots=True)
class Fleet:
    """A running planner, its engine, its robots and everything that was seen of them.

    Attributes:
        planner: The planner.
        engine: The engine; a :class:`ScriptedEngine` unless the test brought its own.
        skill_sets: The skill sets that the planner knows, by name.
        drivers: The drivers that record, by robot.
        executors: The executors by robot.
        links: The planner's links to the robots.
        log: What the robots were told and what the planner said, in order.
    """

    planner: Planner
    engine: Engine
    skill_sets: dict[str, SkillSet]
    drivers: dict[str, RecordingDriver]
    executors: dict[str, SegmentExecutor]
    links: dict[str, LocalRobotLink]
    log: list[Note | PlannerEvent]

    @property
    def journal(self) -> list[Note]:
        """What the robots were told, in order."""
        return [entry for entry in self.log if isinstance(entry, Note)]

    @property
    def events(self) -> list[PlannerEvent]:
        """What the planner said, in order."""
        return [entry for entry in self.log if not isinstance(entry, Note)]

    def task(
        self,
        task_id: str,
        robot: str = 'r1',
        *,
        skill_set: str = 'exact',
        instruction: str = 'act',
        scene: Scene = EXACT_SCENE,
        utility: TimeUtility = NORMAL,
        **options: Any,
    ) -> Task:
        """Return a task that names only what matters to the test; nothing is submitted."""
        return Task(task_id, robot, skill_set, instruction, scene, utility, **options)

    def submit(
        self, task: Task, *, on_feedback: Callable[[TaskFeedback], None] | None = None
    ) -> TaskHandle:
        """Prepare a task and submit it."""
        return self.planner.submit(self.planner.prepare(task), on_feedback=on_feedback)

    def notes(self, robot: str = 'r1') -> list[tuple[str, str]]:
        """Return event and call of everything that a robot was told, in order."""
        return [(note.event, note.call) for note in self.journal if note.robot == robot]

    def events_of(self, task_id: str, kind: type[PlannerEvent] | None = None) -> list[PlannerEvent]:
        """Return what the planner said of a task, in order; of one kind of event if asked."""
        return [
            event
            for event in self.events
            if event.task_id == task_id and (kind is None or isinstance(event, kind))
        ]

    async def add_robot(self, robot: str, driver: Driver, skill_set: SkillSet) -> None:
        """Connect a robot with a driver of your own; the planner takes tasks for it at once."""
        clock = LoopClock()
        executor = SegmentExecutor(driver, skill_set, clock)
        await executor.start()
        self.skill_sets[skill_set.name] = skill_set
        self.executors[robot] = executor
        self.links[robot] = LocalRobotLink(executor, clock)

    async def close(self) -> None:
        """Close the planner, which makes every robot safe, then the executors."""
        await self.planner.close()
        for executor in self.executors.values():
            await executor.close()


async def make_fleet(
    script: Callable[[GenerationRequest], Script] = by_instruction,
    *,
    engine: Engine | None = None,
    robots: tuple[str, ...] = ('r1', 'r2'),
    latency_s: float = 0.0,
    skill_set: SkillSet = EXACT_SKILLS,
    **planner_options: Any,
) -> Fleet:
    """Return a fleet that has started.

    Args:
        script: Returns what the generation of a request does; by default the instruction lists
            the durations of the calls to plan (s).
        engine: Takes the place of a :class:`ScriptedEngine` with that script.
        robots: Names of the robots that record what they are told.
        latency_s: How long a segment takes from the planner to a robot (s).
        skill_set: The robots' skills.
        planner_options: Options of the ``Planner``.
    """
    clock = LoopClock()
    log: list[Note | PlannerEvent] = []
    drivers = {robot: RecordingDriver(skill_set, robot, log.append) for robot in robots}
    executors = {
        robot: SegmentExecutor(driver, skill_set, clock) for robot, driver in drivers.items()
    }
    links = {
        robot: LocalRobotLink(executor, clock, latency_s=latency_s)
        for robot, executor in executors.items()
    }
    skill_sets = {skill_set.name: skill_set}
    used: Engine = ScriptedEngine(script) if engine is None else engine
    planner = Planner(
        engine=used,
        robots=links,
        skill_sets=skill_sets,
        clock=clock,
        on_event=log.append,
        **planner_options,
    )
    for executor in executors.values():
        await executor.start()
    await planner.start()
    # The safe actions that connecting begins with are nobody's concern.
    log.clear()
    return Fleet(planner, used, skill_sets, drivers, executors, links, log)


def in_fleet(
    body: Callable[[Fleet], Awaitable[None]],
    script: Callable[[GenerationRequest], Script] = by_instruction,
    **options: Any,
) -> Fleet:
    """Run ``body`` with a fleet on virtual time; close the fleet and return it.

    Virtual time passes only while everything waits: a minute of flight takes milliseconds, and a
    test sees the same times on every machine. Options are those of :func:`make_fleet`.
    """

    async def main() -> Fleet:
        fleet = await make_fleet(script, **options)
        try:
            await body(fleet)
        finally:
            await fleet.close()
        return fleet

    return run_virtual(main())
