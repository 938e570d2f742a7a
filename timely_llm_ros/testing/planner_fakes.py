"""An engine that follows a script, a robot of exact times, and a fleet of both for one test."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timely_llm_ros.clock import LoopClock
from timely_llm_ros.drivers import SimulatedDriver
from timely_llm_ros.engines import (
    EngineFailed,
    EngineInfo,
    EngineReady,
    GenerationEnded,
    SegmentGenerated,
)
from timely_llm_ros.errors import RobotUnavailableError, SkillFailedError
from timely_llm_ros.execution import LocalRobotLink, SegmentExecutor
from timely_llm_ros.planner import Planner, Task
from timely_llm_ros.skills import Call, Scene, SceneObject, Segment, SkillSet, parse
from timely_llm_ros.skills.loading import parse_skill_set
from timely_llm_ros.utility import NORMAL, TimeUtility
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from timely_llm_ros.engines import EndReason, Engine, EngineEvent, GenerationRequest
    from timely_llm_ros.planner import PlannerEvent

SKILLS = parse_skill_set("""
name: exact
description: a robot of exact times
safe_action: halt
skills:
  act:
    description: take a given time
    arguments: {duration: {kind: int, unit: ms, minimum: 0, maximum: 100000}}
    duration: {model: linear, base_s: 0.0, per: {duration: 1.0}}
  look:
    description: say whether it is there
    blocking: true
    returns: bool
    arguments: {target: {kind: object}}
    duration: {model: constant, seconds: 0.5}
  halt:
    description: stop
    duration: {model: constant, seconds: 0.0}
""")

SCENE = Scene((SceneObject('cup_1', 'cup'),))


def segments_of(text: str) -> list[Segment]:
    """Cut a plan into one segment per top-level statement."""
    cut = []
    for index, statement in enumerate(parse(text, SKILLS, SCENE)):
        awaits = isinstance(statement, Call) and SKILLS.skills[statement.skill].blocking
        cut.append(Segment(index, '', (statement,), tokens=5, awaits_value=awaits))
    return cut


def acts(*durations_s: float) -> str:
    """Return a plan of calls that take these times."""
    return ''.join(f'act({round(duration_s * 1000)});' for duration_s in durations_s)


@dataclass(slots=True)
class Script:
    """What a generation does: its plan, when each segment is complete (s from begin), its end."""

    plan: str
    every_s: float = 0.1
    at_s: list[float] | None = None
    reason: EndReason = 'stop'
    error: str = ''
    end_after_s: float = 0.0


@dataclass(slots=True)
class ScriptedEngine:
    """Follows ``script`` for each request; every generation on its own, none waits for another."""

    script: Callable[[GenerationRequest], Script]
    requests: list[GenerationRequest] = field(default_factory=list)
    canceled: list[str] = field(default_factory=list)
    resumed: list[tuple[str, str | None]] = field(default_factory=list)
    idle_at_s: dict[str, list[float]] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _values: dict[str, asyncio.Event] = field(default_factory=dict)
    _on_event: Callable[[EngineEvent], None] | None = None

    INFO = EngineInfo('scripted', 'none', 0, 'none', 0, 0, 0.0)

    async def start(self, on_event: Callable[[EngineEvent], None]) -> EngineInfo:
        self._on_event = on_event
        return self.INFO

    async def close(self) -> None:
        self._on_event = None
        for task in self._tasks.values():
            task.cancel()

    @property
    def live(self) -> int:
        return sum(not task.done() for task in self._tasks.values())

    def emit(self, event: EngineEvent) -> None:
        if self._on_event is not None:
            self._on_event(event)

    def submit(self, request: GenerationRequest) -> None:
        assert request.generation_id not in self._tasks
        self.requests.append(request)
        self._values[request.generation_id] = asyncio.Event()
        self._tasks[request.generation_id] = asyncio.get_running_loop().create_task(
            self._generate(request)
        )

    def suspend(self, generation_id: str) -> None:
        raise AssertionError('the planner leaves suspension to the engine')

    def resume(self, generation_id: str, observation: str | None = None) -> None:
        self.resumed.append((generation_id, observation))
        self._values[generation_id].set()

    def robot_idle_at(self, generation_id: str, idle_at_s: float) -> None:
        self.idle_at_s.setdefault(generation_id, []).append(idle_at_s)

    def cancel(self, generation_id: str) -> None:
        self.canceled.append(generation_id)
        task = self._tasks.get(generation_id)
        if task is not None and not task.done():
            task.cancel()
            self._end(generation_id, 'canceled', '')

    def fail(self, error: str) -> None:
        for task in self._tasks.values():
            task.cancel()
        self.emit(EngineFailed(error))

    def recover(self) -> None:
        self.emit(EngineReady(self.INFO))

    async def _generate(self, request: GenerationRequest) -> None:
        loop = asyncio.get_running_loop()
        script, generation_id = self.script(request), request.generation_id
        began_s = loop.time()
        for segment in segments_of(script.plan):
            if script.at_s is not None:
                await asyncio.sleep(began_s + script.at_s[segment.index] - loop.time())
            else:
                await asyncio.sleep(script.every_s)
            self.emit(SegmentGenerated(generation_id, segment, loop.time(), 0.05, 10))
            if segment.awaits_value:
                await self._values[generation_id].wait()
                self._values[generation_id].clear()
        await asyncio.sleep(script.end_after_s)
        self._end(generation_id, script.reason, script.error)

    def _end(self, generation_id: str, reason: EndReason, error: str) -> None:
        self.emit(GenerationEnded(generation_id, reason, error, 20, 0.1))


class RecordingDriver(SimulatedDriver):
    """Keeps its journal in memory; can be told to lose the robot or to fail at a call."""

    def __init__(
        self,
        skill_set: SkillSet,
        robot: str,
        journal: list[Note],
        log: list[Note | PlannerEvent],
    ) -> None:
        super().__init__(skill_set, values=self._value)
        self.robot, self.journal, self.log = robot, journal, log
        self.value: bool | str | None = True
        self.fails_at: str | None = None
        self.hangs_at: str | None = None
        self.broken = False
        self.gone = False
        self.was_gone = False
        self.on_end: Callable[[], object] | None = None
        self.safe_s = 0.0
        """How long the robot takes to be told its safe action."""

    def _value(self, call: Call, scene: Scene) -> bool | str | None:
        if self.on_end is not None:
            self.on_end()
        return self.value

    async def execute(self, call: Call, scene: Scene) -> bool | str | None:
        self._require_contact()
        if self.broken or call.text == self.fails_at:
            self._note('start', call.text)
            raise SkillFailedError(f'{call.text}: motor stop')
        if call.text == self.hangs_at:
            self._note('start', call.text)
            await asyncio.sleep(1e6)
        return await super().execute(call, scene)

    async def safe(self) -> None:
        self._require_contact()
        await asyncio.sleep(self.safe_s)
        await super().safe()

    def _require_contact(self) -> None:
        if self.gone:
            self.was_gone = True
            raise RobotUnavailableError(f'robot {self.robot!r} is gone')

    def _note(self, event: str, call: str) -> None:
        note = Note(asyncio.get_running_loop().time(), self.robot, event, call)
        self.journal.append(note)
        self.log.append(note)


@dataclass(frozen=True, slots=True)
class Note:
    at_s: float
    robot: str
    event: str
    call: str


@dataclass(slots=True)
class Fleet:
    """A running planner, its engine, its robots and everything that was seen of them."""

    planner: Planner
    engine: Engine
    drivers: dict[str, RecordingDriver]
    executors: dict[str, SegmentExecutor]
    links: dict[str, LocalRobotLink]
    journal: list[Note]
    events: list[PlannerEvent]
    log: list[Note | PlannerEvent]
    """Journal and events as they happened."""
    keep: list[object] = field(default_factory=list)

    def task(
        self,
        task_id: str,
        robot: str = 'r1',
        *,
        instruction: str = 'act',
        utility: TimeUtility = NORMAL,
        **options: object,
    ) -> Task:
        return Task(task_id, robot, 'exact', instruction, SCENE, utility, **options)  # type: ignore[arg-type]

    def notes(self, robot: str = 'r1') -> list[tuple[str, str]]:
        return [(note.event, note.call) for note in self.journal if note.robot == robot]

    def events_of(self, task_id: str, kind: type[PlannerEvent] | None = None) -> list[PlannerEvent]:
        return [
            event
            for event in self.events
            if event.task_id == task_id and (kind is None or isinstance(event, kind))
        ]

    async def close(self) -> None:
        await self.planner.close()
        for executor in self.executors.values():
            await executor.close()


async def make_fleet(
    script: Callable[[GenerationRequest], Script] | None = None,
    *,
    engine: Engine | None = None,
    robots: tuple[str, ...] = ('r1', 'r2'),
    latency_s: float = 0.0,
    skill_set: SkillSet = SKILLS,
    executor_options: dict[str, float | None] | None = None,
    **planner_options: object,
) -> Fleet:
    """Return a started fleet. Without a script the instruction is read as durations in s."""
    clock = LoopClock()
    journal: list[Note] = []
    events: list[PlannerEvent] = []
    log: list[Note | PlannerEvent] = []

    def see(event: PlannerEvent) -> None:
        events.append(event)
        log.append(event)

    drivers = {robot: RecordingDriver(skill_set, robot, journal, log) for robot in robots}
    executors = {
        robot: SegmentExecutor(driver, skill_set, clock, **(executor_options or {}))  # type: ignore[arg-type]
        for robot, driver in drivers.items()
    }
    links = {
        robot: LocalRobotLink(executor, clock, latency_s=latency_s)
        for robot, executor in executors.items()
    }
    used: Engine = engine if engine is not None else ScriptedEngine(script or by_instruction)
    planner = Planner(
        engine=used,
        robots=links,
        skill_sets={skill_set.name: skill_set},
        clock=clock,
        on_event=see,
        **planner_options,  # type: ignore[arg-type]
    )
    for executor in executors.values():
        await executor.start()
    await planner.start()
    return Fleet(planner, used, drivers, executors, links, journal, events, log)


def by_instruction(request: GenerationRequest) -> Script:
    """Plan calls of the durations that the instruction lists; 0.1 s of generation for each."""
    numbers = re.findall(r'\d+(?:\.\d+)?', request.prompt.body.split('task:')[1])
    return Script(acts(*map(float, numbers)))


def in_fleet(
    body: Callable[[Fleet], Awaitable[None]],
    script: Callable[..., Script] | None = None,
    **options: object,
) -> Fleet:
    """Run ``body`` with a fleet on virtual time, close the fleet, return what is left of it."""

    async def main() -> Fleet:
        fleet = await make_fleet(script, **options)  # type: ignore[arg-type]
        try:
            await body(fleet)
        finally:
            await fleet.close()
        return fleet

    return run_virtual(main())


def engine_of(fleet: Fleet) -> ScriptedEngine:
    assert isinstance(fleet.engine, ScriptedEngine)
    return fleet.engine
