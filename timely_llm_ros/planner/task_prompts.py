"""Prompts of the model that the engine has, once it has started."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from timely_llm_ros.engines.tokens import PromptSize
from timely_llm_ros.prompts import TersePrompts, load_prompts
from timely_llm_ros.skills import Scene

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.engines import EngineInfo
    from timely_llm_ros.prompts import Prompts
    from timely_llm_ros.skills import Prompt, SkillSet


class TaskPrompts:
    """Builds prompts as the model's template has them; before :meth:`load`, terse ones."""

    def __init__(self) -> None:
        self._prompts: Prompts = TersePrompts()
        self.tokens: dict[str, int] = {}
        """Tokens that all tasks of a skill set share, by its name, where the model's template was
        rendered for it by :meth:`load`."""

    async def load(
        self, template: str, info: EngineInfo, skill_sets: Mapping[str, SkillSet]
    ) -> None:
        """Take the template of a model, or the one that ``template`` names.

        Raises:
            ConfigurationError: The template cannot be used.
        """
        self._prompts = load_prompts(template, info.tokenizer or info.model)
        if not isinstance(self._prompts, TersePrompts):
            # A template is rendered in a process of its own, which takes a moment.
            await asyncio.to_thread(self._measure, info, dict(skill_sets))

    def build(self, skill_set: SkillSet, scene: Scene, instruction: str) -> Prompt:
        """Return the prompt of a task.

        Raises:
            InvalidTaskError: Its instruction holds a mark of the model's prompts.
        """
        return self._prompts.build(skill_set, scene, instruction)

    def _measure(self, info: EngineInfo, skill_sets: Mapping[str, SkillSet]) -> None:
        size = PromptSize(info)
        for name, skill_set in skill_sets.items():
            self.tokens[name] = size.fixed(self.build(skill_set, Scene(), 'x'))
