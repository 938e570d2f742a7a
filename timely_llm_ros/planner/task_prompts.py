"""Prompts of the model that the engine has, once it has started."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from timely_llm_ros.engines.tokens import PromptSize
from timely_llm_ros.errors import InvalidTaskError
from timely_llm_ros.prompts import TersePrompts, load_prompts
from timely_llm_ros.skills import Scene

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from timely_llm_ros.engines import EngineInfo
    from timely_llm_ros.prompts import Prompts
    from timely_llm_ros.skills import Message, Prompt, SkillSet


class TaskPrompts:
    """Builds prompts as the model's template has them; before :meth:`load`, terse ones."""

    def __init__(self) -> None:
        self._prompts: Prompts = TersePrompts()
        self._size: PromptSize | None = None
        self._context = 0
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
        folder = '' if info.messages else info.tokenizer or info.model
        self._prompts = load_prompts(template, folder, messages=info.messages)
        self._size, self._context = PromptSize(info), info.context_tokens
        if not isinstance(self._prompts, TersePrompts):
            # A template is rendered in a process of its own, which takes a moment.
            await asyncio.to_thread(self._measure, self._size, dict(skill_sets))

    def build(
        self,
        skill_set: SkillSet,
        scene: Scene,
        instruction: str,
        history: Sequence[Message] = (),
    ) -> Prompt:
        """Return the prompt of a task.

        Raises:
            InvalidTaskError: Its instruction holds a mark of the model's prompts, or is too long
                for the model's context.
        """
        prompt = self._prompts.build(skill_set, scene, instruction, history)
        # No token has less than a byte, so most prompts need not be counted.
        if len(prompt.text.encode()) >= self._context > 0 and self._size is not None:
            tokens = self._size(prompt)
            if tokens >= self._context:
                raise InvalidTaskError(
                    f'prompt of {tokens} tokens: expected fewer than {self._context}, which a '
                    "context of the engine's has"
                )
        return prompt

    def _measure(self, size: PromptSize, skill_sets: Mapping[str, SkillSet]) -> None:
        for name, skill_set in skill_sets.items():
            self.tokens[name] = size.fixed(self.build(skill_set, Scene(), 'x'))
