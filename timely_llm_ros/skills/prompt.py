"""The prompt: a part that every robot of a kind shares, then the scene, then the instruction.

The fixed part comes first and is identical for every task of one skill set, so that an engine
computes its KV once and shares it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.errors import InvalidTaskError
from timely_llm_ros.skills.argument_kinds import prompt_text

if TYPE_CHECKING:
    from timely_llm_ros.skills.scene import Scene, SceneObject
    from timely_llm_ros.skills.skill_types import SkillSet

MAX_INSTRUCTION_LENGTH = 400
"""Characters that an instruction may have."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The two parts of a prompt; the model reads ``fixed + body``."""

    fixed: str
    body: str

    @property
    def text(self) -> str:
        """The whole prompt."""
        return self.fixed + self.body


def build_prompt(skill_set: SkillSet, scene: Scene, instruction: str) -> Prompt:
    """Return the prompt of one task.

    Raises:
        InvalidTaskError: The instruction is empty, too long or has control characters, or an object
            has the name of a skill that plans may call.
    """
    words = instruction_words(instruction)
    if skill_set.free_text is not None:
        seen = f'What is there:\n{scene_text(scene)}' if scene.objects else ''
        return Prompt(fixed_part(skill_set), f'{seen}Question: {words}\nAnswer:\n')
    for name in scene.names:
        if name in skill_set.skills:
            raise InvalidTaskError(
                f'object name {name!r} is a skill of {skill_set.name!r}: expected another name'
            )
    return Prompt(fixed_part(skill_set), f'scene:\n{scene_text(scene)}task: {words}\nplan:\n')


def instruction_words(instruction: str) -> str:
    """Return an instruction as one line, as it stands in prompts.

    Raises:
        InvalidTaskError: It is empty, too long or has control characters.
    """
    words = ' '.join(instruction.split())
    if not words or len(words) > MAX_INSTRUCTION_LENGTH or not words.isprintable():
        raise InvalidTaskError(
            f'instruction {instruction[:60]!r}: expected 1 to {MAX_INSTRUCTION_LENGTH} '
            'printable characters'
        )
    return words


def fixed_part(skill_set: SkillSet) -> str:
    """Return what every task's prompt begins with: what the robot can do, or how a chat answers."""
    if skill_set.free_text is not None:
        return f'The answers below are plain text for {skill_set.description}.\n'
    lines = [f'robot: {skill_set.name}\n']
    for skill in skill_set.skills.values():
        arguments = ','.join(map(prompt_text, skill.arguments))
        lines.append(f'{skill.name}{f"({arguments})" if arguments else ""} {skill.description}\n')
    return ''.join(lines)


def scene_text(scene: Scene) -> str:
    """Return the lines of all objects: those at one place together, an empty line between places.

    What has to be handled one after the other then stands one after the other.
    """
    places: dict[tuple[str, str], list[str]] = {}
    for item in scene.objects:
        places.setdefault((item.relation, item.support), []).append(scene_line(item))
    return '\n'.join(map(''.join, places.values()))


def scene_line(item: SceneObject) -> str:
    """Return one object's line; its name comes last, so that one look back finds it."""
    return (
        f'{item.attribute} {item.kind} {item.relation} {item.support} '
        f'{_metres(item.x_m)} {_metres(item.y_m)}={item.name}\n'
    )


def _metres(value_m: float) -> str:
    """A signed decimetre-exact number of at most two digits before the point: always one shape."""
    clamped = max(-99.9, min(99.9, value_m))
    return f'{clamped:+.1f}' if round(clamped, 1) else '+0.0'
