"""Prompts of the model that the engine has, once it has started."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from timely_llm_ros.engines.tokens import PromptSize
from timely_llm_ros.errors import InvalidTaskError, TimelyError
from timely_llm_ros.prompts import TersePrompts, load_prompts, untaught
from timely_llm_ros.skills import Scene

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from timely_llm_ros.engines import Engine, EngineInfo
    from timely_llm_ros.prompts import Prompts
    from timely_llm_ros.skills import Message, Prompt, SkillSet


class TaskPrompts:
    """Builds prompts as the model's template has them; before :meth:`load`, terse ones."""

    def __init__(self) -> None:
        self._prompts: Prompts = TersePrompts()
        self._own: dict[str, Prompts] = {}
        self._size: PromptSize | None = None
        self._context = 0
        self.tokens: dict[str, int] = {}
        """Tokens that all tasks of a skill set share, by its name, where the model's template was
        rendered for it by :meth:`load`."""
        self.untaught: dict[str, list[str]] = {}
        """Skills that the model has never seen, by the skill set that has them; known for models
        that were trained here."""

    async def load(
        self, template: str, info: EngineInfo, skill_sets: Mapping[str, SkillSet]
    ) -> None:
        """Take the template of a model, or the one that ``template`` names.

        A skill set that has an adapter has the template of the adapter.

        Raises:
            ConfigurationError: The template cannot be used.
        """
        folder = '' if info.messages else info.tokenizer or info.model
        self._prompts = load_prompts(template, folder, messages=info.messages)
        self._own = {
            name: load_prompts(template, folder, adapter=adapter)
            for name, adapter in info.adapters.items()
        }
        self._size, self._context = PromptSize(info), info.context_tokens
        self.untaught = {
            name: skills
            for name, skill_set in skill_sets.items()
            if name not in self._own and (skills := untaught(skill_set, folder))
        }
        rendered = {
            name: skill_set
            for name, skill_set in skill_sets.items()
            if not isinstance(self._of(skill_set), TersePrompts)
        }
        if rendered:
            # A template is rendered in a process of its own, which takes a moment.
            await asyncio.to_thread(self._measure, self._size, rendered)

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
        prompt = self._of(skill_set).build(skill_set, scene, instruction, history)
        # No token has less than a byte, so most prompts need not be counted.
        if len(prompt.text.encode()) >= self._context > 0 and self._size is not None:
            tokens = self._size(prompt)
            if tokens >= self._context:
                raise InvalidTaskError(
                    f'prompt of {tokens} tokens: expected fewer than {self._context}, which a '
                    "context of the engine's has"
                )
        return prompt

    def known(self, skill_set: SkillSet, scene: Scene) -> Prompt:
        """Return what prompts of all tasks in a scene begin with; its body may be empty.

        Raises:
            InvalidTaskError: An object has the name of a skill that plans may call.
        """
        return self._of(skill_set).known(skill_set, scene)

    def _of(self, skill_set: SkillSet) -> Prompts:
        return self._own.get(skill_set.name, self._prompts)

    def _measure(self, size: PromptSize, skill_sets: Mapping[str, SkillSet]) -> None:
        for name, skill_set in skill_sets.items():
            self.tokens[name] = size.fixed(self.build(skill_set, Scene(), 'x'))


class WarmScenes:
    """Tells an engine what robots know, so that it computes their scenes before tasks come.

    An engine that cannot use it is told nothing.
    """

    def __init__(self, engine: Engine, prompts: TaskPrompts) -> None:
        self._engine, self._prompts = engine, prompts
        self._warms = False
        self._told: dict[str, tuple[Scene, str]] = {}

    def engine_ready(self, info: EngineInfo) -> None:
        """Note that the engine has begun anew and knows nothing."""
        self._warms = info.warms
        self._told.clear()

    def engine_stopped(self) -> None:
        """Tell nothing until the engine is ready."""
        self._warms = False

    def tell(self, robot: str, skill_set: SkillSet, scene: Scene) -> None:
        """Tell the engine where what a robot's prompts begin with has changed.

        Stamps do not count; leave them out, so that a scene that stays is seen to be the same.
        """
        told, before = self._told.get(robot, (Scene(), ''))
        if not self._warms or skill_set.free_text is not None or scene == told:
            return
        try:
            prompt = self._prompts.known(skill_set, scene) if scene.objects else None
        except TimelyError:
            # A task with this scene is told what is wrong with it.
            prompt = None
        text = prompt.text if prompt is not None and prompt.body else ''
        self._told[robot] = scene, text
        if text != before:
            self._engine.warm(robot, prompt if text else None, skill_set, scene)
