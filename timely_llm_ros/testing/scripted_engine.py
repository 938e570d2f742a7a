"""An engine without a model: a test says which plan each request gets, and when."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timely_llm_ros.engines import (
    Cancel,
    Engine,
    EngineFailed,
    EngineInfo,
    EngineReady,
    GenerationEnded,
    Resume,
    RobotIdleAt,
    SegmentGenerated,
    Submit,
    Suspend,
)
from timely_llm_ros.errors import EngineError
from timely_llm_ros.skills import Call, Segment, parse
from timely_llm_ros.testing.exact_skills import acts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from timely_llm_ros.engines import Command, EndReason, EngineEvent, GenerationRequest


@dataclass(frozen=True, slots=True)
class Script:
    """What one generation does.

    Attributes:
        plan: The plan's text. Every top-level statement becomes a segment of its own.
        every_s: How long each segment takes to generate (s).
        at_s: When each segment is complete (s from the generation's begin), in place of
            ``every_s``.
        reason: How the generation ends.
        error: What went wrong, where the reason is ``error``.
        end_after_s: How long after its last segment the generation ends (s).
    """

    plan: str
    every_s: float = 0.1
    at_s: Sequence[float] | None = None
    reason: EndReason = 'stop'
    error: str = ''
    end_after_s: float = 0.0


def by_instruction(request: GenerationRequest) -> Script:
    """Plan an ``act`` call for each duration (s) in the instruction.

    ``'do 1.5 and 2'`` becomes ``act(1500);act(2000);``.
    """
    numbers = re.findall(r'\d+(?:\.\d+)?', request.prompt.body.split('task:')[1])
    return Script(acts(*map(float, numbers)))


@dataclass(slots=True)
class ScriptedEngine(Engine):
    """Generates what a script says; generations do not wait for each other.

    Attributes:
        script: Returns what the generation of a request does.
        requests: The requests so far, in order.
        canceled: Ids of the generations that the planner cancelled.
        resumed: Ids of the generations that went on, each with the observation it was given.
        idle_at_s: At what times the planner expected each generation's robot to be idle (s), by id.
    """

    script: Callable[[GenerationRequest], Script] = by_instruction
    requests: list[GenerationRequest] = field(default_factory=list)
    canceled: list[str] = field(default_factory=list)
    resumed: list[tuple[str, str | None]] = field(default_factory=list)
    idle_at_s: dict[str, list[float]] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _values: dict[str, asyncio.Event] = field(default_factory=dict)
    _on_event: Callable[[EngineEvent], None] | None = None

    INFO = EngineInfo('scripted', 'none', 0, 'none', 0, 0, 0.0)

    async def start(self, on_event: Callable[[EngineEvent], None]) -> EngineInfo:
        """Take requests from now on."""
        self._on_event = on_event
        return self.INFO

    async def close(self) -> None:
        """Drop every generation silently."""
        self._on_event = None
        for task in self._tasks.values():
            task.cancel()

    @property
    def live(self) -> int:
        """How many generations have not ended."""
        return sum(not task.done() for task in self._tasks.values())

    def send(self, command: Command) -> None:
        """Do what a command asks for.

        Raises:
            EngineError: The command suspends, which the planner leaves to the engine.
        """
        match command:
            case Submit(request):
                self.begin(request)
            case Suspend(name):
                raise EngineError(f'generation {name!r}: expected nobody to suspend it')
            case Resume(name, observation):
                self.resumed.append((name, observation))
                self._values[name].set()
            case RobotIdleAt(name, idle_at_s):
                self.idle_at_s.setdefault(name, []).append(idle_at_s)
            case Cancel(name):
                self.stop(name)

    def begin(self, request: GenerationRequest) -> None:
        """Begin a generation.

        Raises:
            EngineError: Its id was used before.
        """
        generation_id = request.generation_id
        if generation_id in self._tasks:
            raise EngineError(f'generation {generation_id!r}: expected an id that is not in use')
        self.requests.append(request)
        self._values[generation_id] = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._tasks[generation_id] = loop.create_task(self._generate(request))

    def stop(self, generation_id: str) -> None:
        """End a generation at once."""
        self.canceled.append(generation_id)
        task = self._tasks.get(generation_id)
        if task is not None and not task.done():
            task.cancel()
            self._end(generation_id, 'canceled', '')

    def fail(self, error: str) -> None:
        """Break down as if the engine's process had died: every generation is lost."""
        for task in self._tasks.values():
            task.cancel()
        self.emit(EngineFailed(error))

    def recover(self) -> None:
        """Take requests again after :meth:`fail`."""
        self.emit(EngineReady(self.INFO))

    def emit(self, event: EngineEvent) -> None:
        """Tell the planner something out of turn."""
        if self._on_event is not None:
            self._on_event(event)

    async def _generate(self, request: GenerationRequest) -> None:
        loop = asyncio.get_running_loop()
        script, generation_id = self.script(request), request.generation_id
        began_s = loop.time()
        for segment in _segments(script.plan, request):
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


def _segments(plan: str, request: GenerationRequest) -> list[Segment]:
    """Cut a plan into one segment per top-level statement."""
    skills = request.skill_set.skills
    cut = []
    for index, statement in enumerate(parse(plan, request.skill_set, request.scene)):
        awaits = isinstance(statement, Call) and skills[statement.skill].blocking
        cut.append(Segment(index, '', (statement,), tokens=5, awaits_value=awaits))
    return cut
