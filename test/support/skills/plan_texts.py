"""Skill sets and scenes for these tests, and a writer of random plans that knows where they end."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from timely_llm_ros.skills.limits import PlanLimits
from timely_llm_ros.skills.loading import find_skill_set, parse_skill_set
from timely_llm_ros.skills.scene import Scene, SceneObject

if TYPE_CHECKING:
    import random

    from timely_llm_ros.skills.skill_types import ArgumentSpec, Skill, SkillSet

TELLO = find_skill_set('tello')
ARM = find_skill_set('arm')
LAB = parse_skill_set(
    """
name: lab
description: every kind of argument
safe_action: freeze
max_repeat: 7
skills:
  freeze:
    description: stop all motion
    duration: {model: constant, seconds: 0.1}
  pour:
    description: pour from a bottle
    arguments:
      source: {kind: object, object_kinds: [bottle]}
      amount: {kind: number, unit: g, minimum: 0.5, maximum: 12.25}
      speed: {kind: choice, choices: [slow, fast, very_fast]}
    duration: {model: linear, base_s: 1.0, per: {source: 0.5, amount: 100}, variation: 0.1}
  tilt:
    description: tilt by an angle
    arguments:
      angle: {kind: number, unit: deg, minimum: -12.5, maximum: 33}
      times: {kind: int, minimum: -3, maximum: 1200}
    duration: {model: empirical, samples_s: [1.0, 2.0, 4.5]}
  say:
    description: say a text
    arguments:
      text: {kind: string, max_length: 12}
    duration: {model: constant, seconds: 0.2}
  is_open:
    description: is a box open
    arguments:
      target: {kind: object, object_kinds: [box, bottle]}
    blocking: true
    returns: bool
    duration: {model: constant, seconds: 0.3}
  is_done:
    description: is it done
    blocking: true
    returns: bool
    duration: {model: constant, seconds: 0.3}
  read_label:
    description: read a label
    arguments:
      target: {kind: object}
    blocking: true
    returns: text
    duration: {model: constant, seconds: 0.4}
"""
)
WIDE = PlanLimits(segment_calls=100_000, segment_s=1e6, plan_calls=1_000_000, plan_s=1e7)
SKILL_SETS = tuple(replace(skill_set, limits=WIDE) for skill_set in (TELLO, ARM, LAB))
"""For random plans, which may ask for whatever can be written."""
SCENE = Scene(
    (
        SceneObject('cat_3', 'cat', x_m=1.0),
        SceneObject('cup_1', 'cup', y_m=-2.0),
        SceneObject('cup_10', 'cup', x_m=3.0, y_m=4.0),
        SceneObject('bottle_2', 'bottle', x_m=0.5),
        SceneObject('box_4', 'box'),
    )
)
STRING_CHARACTERS = 'ABCXYZabcxyz0189 ,.!?_-'


@dataclass(frozen=True)
class Written:
    """A plan: its text; where each top-level statement ends and whether it is a blocking call."""

    text: str
    ends: tuple[int, ...]
    awaits: tuple[bool, ...]


class PlanWriter:
    """Writes valid plans in their shortest form or, with ``spaces``, with white space in them."""

    def __init__(self, skill_set: SkillSet, rng: random.Random, *, spaces: bool = False) -> None:
        self._skill_set = skill_set
        self._rng = rng
        self._spaces = spaces
        self._skills = list(skill_set.skills.values())
        self._conditions = [skill for skill in self._skills if skill.returns == 'bool']

    def plan(self, statements: int) -> Written:
        text, ends, awaits = '', [], []
        for _ in range(statements):
            # White space after the last ';' would belong to no statement.
            piece, blocking = self._statement(0)
            text += self._space() + piece
            ends.append(len(text))
            awaits.append(blocking)
        return Written(text, tuple(ends), tuple(awaits))

    def _statement(self, depth: int) -> tuple[str, bool]:
        draw = self._rng.random()
        if depth < 3 and draw < 0.1:
            count = self._rng.randint(1, self._skill_set.max_repeat)
            head = self._join('repeat', '(', str(count), ')')
            return self._join(head, self._block(depth), ';'), False
        if depth < 3 and draw < 0.25:
            mark = '!' if self._rng.random() < 0.5 else ''
            call = self._call(self._rng.choice(self._conditions))
            parts = ['if', '(', mark, call, ')', self._block(depth)]
            if self._rng.random() < 0.5:
                parts += ['else', self._block(depth)]
            return self._join(*parts, ';'), False
        skill = self._rng.choice(self._skills)
        return self._join(self._call(skill), ';'), skill.blocking

    def _block(self, depth: int) -> str:
        count = 1 if self._rng.random() < 0.7 else 2
        return self._join('{', *(self._statement(depth + 1)[0] for _ in range(count)), '}')

    def _call(self, skill: Skill) -> str:
        if not skill.arguments:
            return skill.name
        parts: list[str] = []
        for spec in skill.arguments:
            parts += [',', self._argument(spec)]
        return self._join(skill.name, '(', *parts[1:], ')')

    def _argument(self, spec: ArgumentSpec) -> str:
        rng = self._rng
        if spec.kind == 'int':
            if rng.random() < 0.2:
                return str(int(rng.choice([spec.minimum, spec.maximum])))
            return str(rng.randint(int(spec.minimum), int(spec.maximum)))
        if spec.kind == 'number':
            value = rng.uniform(spec.minimum, spec.maximum)
            text = f'{min(spec.maximum, max(spec.minimum, round(value, 3))):.{rng.randint(2, 3)}f}'
            if not spec.minimum <= float(text) <= spec.maximum or float(text) == 0.0:
                return f'{spec.maximum:g}'
            return text
        if spec.kind == 'string':
            length = rng.randint(1, min(spec.max_length, 15))
            return '"' + ''.join(rng.choices(STRING_CHARACTERS, k=length)) + '"'
        if spec.kind == 'choice':
            return rng.choice(spec.choices)
        kinds = spec.object_kinds
        return rng.choice([o.name for o in SCENE.objects if not kinds or o.kind in kinds])

    def _space(self) -> str:
        if not self._spaces or self._rng.random() < 0.8:
            return ''
        return self._rng.choice([' ', '\n', '\t', '  ', ' \r\n '])

    def _join(self, *parts: str) -> str:
        if not self._spaces:
            return ''.join(parts)
        return ''.join(
            part + (self._space() if index + 1 < len(parts) else '')
            for index, part in enumerate(parts)
        )


def first_group(pattern: str, text: str) -> str:
    """Return what the first group of a pattern matches in a text that has it."""
    match = re.search(pattern, text)
    assert match is not None, text
    return match[1]
