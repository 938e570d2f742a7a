"""Skill set and scene -> decoding grammar: masks that leave only valid plans to a model.

The grammar is in llguidance's Lark dialect. It accepts the shortest form of exactly the plans that
the parser accepts: no white space, numbers within their ranges, objects of the scene only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.skills.argument_kinds import pattern_of
from timely_llm_ros.skills.language import MAX_DEPTH, MAX_VALUE_LENGTH, VALUE_CHARACTERS
from timely_llm_ros.skills.number_ranges import integer_range
from timely_llm_ros.skills.segments import FORBIDDEN_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timely_llm_ros.skills.scene import Scene
    from timely_llm_ros.skills.skill_types import Skill, SkillSet


def decoding_grammar(
    skill_set: SkillSet,
    scene: Scene,
    *,
    observations: bool = True,
    stops_at_blocking: bool = False,
) -> str:
    """Return the grammar of one task's plans.

    A skill that needs an object of which the scene has none is left out. A skill set for free text
    allows any text without control characters.

    Args:
        skill_set: The robot's skills.
        scene: The objects that plans may name.
        observations: Whether the runtime writes an observation after every blocking call that is
            a top-level statement; the grammar then demands one. Give False where whole plans are
            generated, because nothing is observed then.
        stops_at_blocking: Whether the text ends with the first blocking call that is a top-level
            statement, because the observation and what follows are asked for anew.
    """
    if skill_set.free_text is not None:
        return f'start: /[^{FORBIDDEN_CHARACTERS}]+/\n'
    return _Grammar(
        skill_set, scene, observations=observations, stops_at_blocking=stops_at_blocking
    ).text()


class _Grammar:
    """The rules of one grammar; terminals that several skills share are defined once."""

    def __init__(
        self, skill_set: SkillSet, scene: Scene, *, observations: bool, stops_at_blocking: bool
    ) -> None:
        self._skill_set = skill_set
        self._scene = scene
        self._observations = observations
        self._stops_at_blocking = stops_at_blocking
        self._terminals: dict[str, str] = {}

    def text(self) -> str:
        calls = {
            skill.name: call
            for skill in self._skill_set.skills.values()
            if (call := self._call(skill)) is not None
        }
        skills = self._skill_set.skills
        awaited = [n for n in calls if skills[n].blocking] if self._observations else []
        free = [name for name in calls if name not in awaited]
        conditions = [name for name in calls if skills[name].returns == 'bool']
        rules = {f'call_{name}': call for name, call in calls.items()}
        rules['call'] = _any_of(calls)
        count = self._terminal('COUNT', integer_range(1, self._skill_set.max_repeat))
        for depth in range(MAX_DEPTH, -1, -1):
            choices = ['call ";"'] if depth or not awaited else []
            if depth == 0 and awaited and free:
                choices.append(f'{_any_of(free)} ";"')
            if depth < MAX_DEPTH:
                block = f'block_{depth + 1}'
                choices.append(f'"repeat(" {count} ")" {block} ";"')
                if conditions:
                    condition = _any_of(conditions)
                    choices.append(f'"if(" "!"? {condition} ")" {block} ("else" {block})? ";"')
            if depth == 0 and not self._stops_at_blocking:
                by_kind = {
                    kind: [name for name in awaited if skills[name].returns == kind]
                    for kind in ('bool', 'text')
                }
                choices += [
                    f'{_any_of(names)} ";#" {self._value(kind)} " "'
                    for kind, names in by_kind.items()
                    if names
                ]
            rules[f'statement_{depth}'] = ' | '.join(choices)
            if depth:
                rules[f'block_{depth}'] = f'"{{" statement_{depth}+ "}}"'
        # Without a single call there is no statement, and only the empty plan is left.
        start = 'start: statement_0+'
        if awaited and self._stops_at_blocking:
            # What is asked for anew behind an observation may be nothing.
            start = 'start: statement_0*'
            start += f' ({_any_of(awaited)} ";")?'
        lines = [start if calls else 'start: ""']
        if calls:
            lines += [f'{name}: {rule}' for name, rule in rules.items()]
            lines += [f'{name}: /{pattern}/' for pattern, name in self._terminals.items()]
        return '\n'.join(lines) + '\n'

    def _call(self, skill: Skill) -> str | None:
        """Return the rule of a skill's call, None if the scene has no object for it."""
        if not skill.arguments:
            return f'"{skill.name}"'
        arguments: list[str] = []
        for spec in skill.arguments:
            pattern = pattern_of(spec, self._scene)
            if pattern is None:
                return None
            arguments.append(self._terminal(f'{skill.name}_{spec.name}'.upper(), pattern))
        return f'"{skill.name}(" ' + ' "," '.join(arguments) + ' ")"'

    def _value(self, kind: str) -> str:
        if kind == 'bool':
            return self._terminal('BOOL', 'true|false')
        return self._terminal('TEXT', f'[{VALUE_CHARACTERS}]{{1,{MAX_VALUE_LENGTH}}}')

    def _terminal(self, name: str, pattern: str) -> str:
        """Return the name of the terminal with that pattern, a new one if there is none."""
        return self._terminals.setdefault(pattern, f'T_{name}')


def _any_of(names: Iterable[str]) -> str:
    return '(' + ' | '.join(f'call_{name}' for name in names) + ')'
