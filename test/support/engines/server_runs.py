"""Runs of the openai engine against servers, and what came of them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.commands import GenerationRequest
from timely_llm_ros.engines.engine import (
    EngineFailed,
    EngineReady,
    EngineStateChanged,
    GenerationEnded,
    SegmentGenerated,
)
from timely_llm_ros.engines.openai.config import OpenAIConfig
from timely_llm_ros.engines.openai.engine import OpenAIEngine
from timely_llm_ros.engines.openai.options import ServerOptions
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.prompt import build_prompt
from timely_llm_ros.skills.scene import Scene, SceneObject
from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from timely_llm_ros.engines.engine import EngineEvent, EngineState
    from timely_llm_ros.skills import SkillSet

GENERATIONS = range(6)
"""Numbers of the generations that runs are compared with."""

LIMIT_S = 60.0
"""What never comes fails a test after this (s)."""


def request(
    number: int, *, max_tokens: int = 40, skill_set: SkillSet | None = None, **options: Any
) -> GenerationRequest:
    """A request of its own: tello and arm in turn, or of one skill set, each with its own scene."""
    scene = Scene(
        tuple(
            SceneObject(f'{kind}_{number + 1}', kind, attribute='red', support='table')
            for kind in ('cat', 'cup', 'cube')
        )
    )
    skill_set = skill_set or find_skill_set('arm' if number % 3 == 2 else 'tello')
    utility = URGENT if number % 4 == 3 else NORMAL
    task = ('look for the cat', 'take a picture of the cup', 'push the cube')[number % 3]
    prompt = build_prompt(skill_set, scene, task)
    return GenerationRequest(
        f'g{number}', prompt, skill_set, scene, utility, time.monotonic(),
        max_tokens=max_tokens, **options,
    )  # fmt: skip


def config_of(urls: Sequence[str], **options: Any) -> OpenAIConfig:
    """Options of the engine and of its servers in one, by name."""
    names = {item.name for item in fields(ServerOptions)}
    server = {name: options.pop(name) for name in tuple(options) if name in names}
    return OpenAIConfig(servers=ServerOptions(tuple(urls), **server), **options)


@dataclass
class Run:
    """An engine and everything that it said. Blocking calls are answered at once."""

    urls: Sequence[str]
    options: dict[str, Any] = field(default_factory=dict)
    segments: dict[str, list[SegmentGenerated]] = field(default_factory=dict)
    ended: dict[str, GenerationEnded] = field(default_factory=dict)
    other: list[EngineEvent] = field(default_factory=list)
    state: EngineState | None = None
    answers: bool = True

    def __post_init__(self) -> None:
        defaults: dict[str, Any] = {'silence_s': 20.0, 'health_period_s': 0.2}
        self.engine = OpenAIEngine(config_of(self.urls, **defaults | self.options))
        self._seen = asyncio.Event()

    async def __aenter__(self) -> Run:
        self.info = await self.engine.start(self._on_event)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.engine.close()

    def _on_event(self, event: EngineEvent) -> None:
        match event:
            case SegmentGenerated():
                assert event.generation_id not in self.ended
                self.segments.setdefault(event.generation_id, []).append(event)
                if event.segment.awaits_value and self.answers:
                    self.engine.resume(event.generation_id, 'true')
            case GenerationEnded():
                assert event.generation_id not in self.ended, 'ended twice'
                self.ended[event.generation_id] = event
            case EngineStateChanged():
                self.state = event.state
            case EngineFailed() | EngineReady():
                self.other.append(event)
        self._seen.set()

    async def until(self, done: Callable[[], object]) -> None:
        """Wait for something to come true."""
        async with asyncio.timeout(LIMIT_S):
            while not done():
                self._seen.clear()
                try:
                    async with asyncio.timeout(0.05):
                        await self._seen.wait()
                except TimeoutError:
                    continue

    async def first_server_is(self, *, well: bool) -> None:
        """Wait until the first server is well, or is lost."""
        await self.until(lambda: self.state and self.state.servers[0].well is well)

    async def all_ended(self, numbers: Sequence[int]) -> None:
        await self.until(lambda: all(f'g{number}' in self.ended for number in numbers))

    def plan(self, number: int) -> tuple[object, ...]:
        """How a generation went, all but its times."""
        name = f'g{number}'
        ended = self.ended[name]
        segments = [event.segment for event in self.segments.get(name, [])]
        assert [segment.index for segment in segments] == list(range(len(segments)))
        return ended.reason, ended.error, ended.token_ids, tuple(segments)


async def undisturbed(url: str, numbers: Sequence[int], **options: Any) -> dict[int, Any]:
    """How each generation goes where nothing disturbs it: alone, in mode stream."""
    async with Run([url], {'mode': 'stream', 'max_running': 1}) as run:
        for number in numbers:
            run.engine.submit(request(number, **options))
        await run.all_ended(numbers)
        return {number: run.plan(number) for number in numbers}
