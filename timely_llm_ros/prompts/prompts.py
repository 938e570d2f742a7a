"""What makes prompts, and the terse ones of the embedded model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from timely_llm_ros.skills import build_prompt

if TYPE_CHECKING:
    from timely_llm_ros.skills import Prompt, Scene, SkillSet


class Prompts(Protocol):
    """Makes the prompts of one model."""

    def prepare(self, skill_set: SkillSet) -> None:
        """Make ready what all tasks of a skill set share; may take a second.

        Raises:
            ConfigurationError: The model's template cannot be used.
        """
        ...

    def build(self, skill_set: SkillSet, scene: Scene, instruction: str) -> Prompt:
        """Return the prompt of one task; fast where the skill set was prepared.

        Raises:
            InvalidTaskError: The instruction is empty, too long or has control characters or a
                mark of the template, or an object has the name of a skill that plans may call.
            ConfigurationError: The skill set was not prepared and the template cannot be used.
        """
        ...


class TersePrompts(Prompts):
    """The prompts that the embedded model was trained on: no roles, no rules, no examples."""

    def prepare(self, skill_set: SkillSet) -> None:
        """Nothing is to be made ready."""

    def build(self, skill_set: SkillSet, scene: Scene, instruction: str) -> Prompt:
        """Return the prompt of one task."""
        return build_prompt(skill_set, scene, instruction)
