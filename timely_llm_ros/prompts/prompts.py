"""What makes prompts, and the terse ones of the embedded model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from timely_llm_ros.errors import InvalidTaskError
from timely_llm_ros.skills import build_prompt, common_start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.skills import Message, Prompt, Scene, SkillSet


class Prompts(Protocol):
    """Makes the prompts of one model."""

    def prepare(self, skill_set: SkillSet) -> None:
        """Make ready what all tasks of a skill set share; may take a second.

        Raises:
            ConfigurationError: The model's template cannot be used.
        """
        ...

    def build(
        self,
        skill_set: SkillSet,
        scene: Scene,
        instruction: str,
        history: Sequence[Message] = (),
    ) -> Prompt:
        """Return the prompt of one task; fast where the skill set was prepared.

        ``history`` is what was said before, by user and assistant in turn; only chats have one.

        Raises:
            InvalidTaskError: The instruction is empty, too long or has control characters or a
                mark of the template, or an object has the name of a skill that plans may call, or
                there can be no history.
            ConfigurationError: The skill set was not prepared and the template cannot be used.
        """
        ...

    def known(self, skill_set: SkillSet, scene: Scene) -> Prompt:
        """Return what prompts of all tasks in a scene begin with; its body may be empty.

        Raises:
            InvalidTaskError: An object has the name of a skill that plans may call.
            ConfigurationError: The skill set was not prepared and the template cannot be used.
        """
        one, other = (self.build(skill_set, scene, text) for text in ('go', 'look'))
        body = one.body[: common_start(one.body, other.body)]
        end = len(one.fixed) + len(body)
        special = one.special and tuple(span for span in one.special if span[1] <= end)
        return replace(one, body=body, special=special, messages=())


class TersePrompts(Prompts):
    """The prompts that the embedded model was trained on: no roles, no rules, no examples."""

    def prepare(self, skill_set: SkillSet) -> None:
        """Nothing is to be made ready."""

    def build(
        self,
        skill_set: SkillSet,
        scene: Scene,
        instruction: str,
        history: Sequence[Message] = (),
    ) -> Prompt:
        """Return the prompt of one task."""
        require_chat(skill_set, history)
        return build_prompt(skill_set, scene, instruction, history)


def require_chat(skill_set: SkillSet, history: Sequence[Message]) -> None:
    """Check that only a chat has a history.

    Raises:
        InvalidTaskError: A robot has one.
    """
    if history and skill_set.free_text is None:
        raise InvalidTaskError(
            f'history of {len(history)} messages: expected none, skill set {skill_set.name!r} is '
            'no chat'
        )
