"""Runs of the openai engine against servers, and what came of them."""

from __future__ import annotations

import time
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from support.engines.engine_run import EngineRun

from timely_llm_ros.engines.commands import GenerationRequest
from timely_llm_ros.engines.openai.config import OpenAIConfig
from timely_llm_ros.engines.openai.engine import OpenAIEngine
from timely_llm_ros.engines.openai.options import ServerOptions
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.prompt import build_prompt
from timely_llm_ros.skills.scene import Scene, SceneObject
from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.skills import SkillSet

GENERATIONS = range(6)
"""Numbers of the generations that runs are compared with."""


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


class Run(EngineRun):
    """An engine on servers."""

    engine: OpenAIEngine

    def __init__(
        self, urls: Sequence[str], options: dict[str, Any] | None = None, *, answers: bool = True
    ) -> None:
        defaults: dict[str, Any] = {'silence_s': 20.0, 'health_period_s': 0.2}
        config = config_of(urls, **defaults | (options or {}))
        super().__init__(OpenAIEngine(config), answers=answers)

    async def first_server_is(self, *, well: bool) -> None:
        """Wait until the first server is well, or is lost."""
        await self.until(lambda: self.state and self.state.servers[0].well is well)


async def undisturbed(url: str, numbers: Sequence[int], **options: Any) -> dict[int, Any]:
    """How each generation goes where nothing disturbs it: alone, in mode stream."""
    async with Run([url], {'mode': 'stream', 'max_running': 1}) as run:
        for number in numbers:
            run.engine.submit(request(number, **options))
        await run.all_ended(numbers)
        return {number: run.plan(number) for number in numbers}
