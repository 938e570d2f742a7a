"""The prompt: a part that every robot of a kind shares, then the scene, then the instruction.

The fixed part comes first and is identical for every task of one skill set, so that an engine
computes its KV once and shares it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.errors import InvalidTaskError
from timely_llm_ros.pickling import pickled_as_call
from timely_llm_ros.skills.argument_kinds import prompt_text
from timely_llm_ros.skills.messages import instruction_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.skills.messages import Message
    from timely_llm_ros.skills.scene import Scene, SceneObject
    from timely_llm_ros.skills.skill_types import Skill, SkillSet


@pickled_as_call
@dataclass(frozen=True, slots=True)
class Prompt:
    """The two parts of a prompt; the model reads ``fixed + body``.

    Attributes:
        fixed: What all tasks of a skill set share.
        body: What differs from task to task.
        special: Where in the whole text a special token of the model stands, as places of its
            first and behind its last character, ascending; everywhere else such a token's text is
            text like any other. None where the tokenizer itself puts what a text begins with.
        messages: The same as messages, for servers that take no other prompt; empty elsewhere.
    """

    fixed: str
    body: str
    special: tuple[tuple[int, int], ...] | None = None
    messages: tuple[Message, ...] = ()

    @property
    def text(self) -> str:
        """The whole prompt."""
        return self.fixed + self.body

    @property
    def key(self) -> str:
        """What fixed parts that consist of the same tokens have in common."""
        inside = [span for span in self.special or () if span[1] <= len(self.fixed)]
        return self.fixed if self.special is None else f'{self.fixed}\0{inside}'

    @property
    def fixed_pieces(self) -> list[tuple[str, bool]]:
        """The texts that the fixed part consists of, and whether each is a special token's."""
        return self._pieces(0, len(self.fixed))

    @property
    def body_pieces(self) -> list[tuple[str, bool]]:
        """The texts that the body consists of, and whether each is a special token's."""
        return self._pieces(len(self.fixed), len(self.fixed) + len(self.body))

    def _pieces(self, start: int, end: int) -> list[tuple[str, bool]]:
        text, found = self.text, list[tuple[str, bool]]()
        for first, last in self.special or ():
            if start <= first and last <= end:
                found += [(text[start:first], False), (text[first:last], True)]
                start = last
        return [piece for piece in (*found, (text[start:end], False)) if piece[0]]


def build_prompt(
    skill_set: SkillSet, scene: Scene, instruction: str, history: Sequence[Message] = ()
) -> Prompt:
    """Return the prompt of one task; only chats have a ``history``.

    Raises:
        InvalidTaskError: The instruction is empty, too long or has control characters, or an object
            has the name of a skill that plans may call.
    """
    words = instruction_words(instruction)
    require_own_names(skill_set, scene)
    if skill_set.free_text is not None:
        seen = f'What is there:\n{scene_text(scene)}' if scene.objects else ''
        names = {'user': 'Question: ', 'assistant': 'Answer:\n'}
        said = ''.join(f'{names[it.role]}{instruction_words(it.content)}\n' for it in history)
        return Prompt(fixed_part(skill_set), f'{seen}{said}Question: {words}\nAnswer:\n')
    return Prompt(fixed_part(skill_set), f'scene:\n{scene_text(scene)}task: {words}\nplan:\n')


def require_own_names(skill_set: SkillSet, scene: Scene) -> None:
    """Check that no object is called as a skill that plans may call.

    Raises:
        InvalidTaskError: One is.
    """
    for name in scene.names if skill_set.free_text is None else ():
        if name in skill_set.skills:
            raise InvalidTaskError(
                f'object name {name!r} is a skill of {skill_set.name!r}: expected another name'
            )


def fixed_part(skill_set: SkillSet) -> str:
    """Return what every task's prompt begins with: what the robot can do, or how a chat answers."""
    if skill_set.free_text is not None:
        return f'The answers below are plain text for {skill_set.description}.\n'
    lines = [f'robot: {skill_set.name}\n']
    lines += [f'{skill_usage(it)} {it.description}\n' for it in skill_set.skills.values()]
    return ''.join(lines)


def skill_usage(skill: Skill) -> str:
    """Return how a call of a skill is written, with the ranges of its arguments."""
    arguments = ','.join(map(prompt_text, skill.arguments))
    return f'{skill.name}({arguments})' if arguments else skill.name


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


def common_start(one: Sequence[object], other: Sequence[object]) -> int:
    """Return with how many equal tokens, or characters, both begin."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
