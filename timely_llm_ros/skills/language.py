"""The plan language: text -> statements, typed, bounded and with every object in the scene.

The text is a language model's output, thus untrusted: nothing in it is evaluated or looked up
other than in the skill set and the scene. The parser reads every character once, from left to
right, and recurses at most ``MAX_DEPTH`` blocks deep. The grammar is in
``docs/reference/plan_language.md``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ArgumentError, PlanError, PlanSyntaxError, UnknownSkillError
from timely_llm_ros.skills.argument_kinds import STRING_CHARACTERS, read_argument
from timely_llm_ros.skills.limits import MAX_PLAN_LENGTH
from timely_llm_ros.skills.skill_types import ArgumentSpec
from timely_llm_ros.skills.statements import Argument, Call, If, Repeat

if TYPE_CHECKING:
    from collections.abc import Container

    from timely_llm_ros.skills.skill_types import Skill, SkillSet
    from timely_llm_ros.skills.statements import Statement

MAX_DEPTH = 3
"""Blocks that may be open inside each other."""

MAX_VALUE_LENGTH = 64
"""Characters that an observed value may have."""

VALUE_CHARACTERS = 'A-Za-z0-9,.!?_-'
"""What an observed value may hold, as the inside of a regular expression's character class."""


def parse(
    text: str, skill_set: SkillSet, object_names: Container[str], *, offset: int = 0
) -> tuple[Statement, ...]:
    """Parse plan text; observations are checked and skipped.

    Args:
        text: Complete statements.
        skill_set: The skills that may be called.
        object_names: The objects that may be named; a ``Scene`` also tells their kinds.
        offset: Where ``text`` begins in its plan, for errors.

    Raises:
        PlanError: Anything else than a valid plan; always one of its subclasses.
    """
    if len(text) > MAX_PLAN_LENGTH:
        raise PlanSyntaxError(
            f'{len(text)} characters: expected at most {MAX_PLAN_LENGTH}', offset + MAX_PLAN_LENGTH
        )
    return _Parser(text, skill_set, object_names, offset).plan()


_SPACE = re.compile(r'[ \t\r\n]*')
_TOKEN = re.compile(
    r'(?P<name>[a-z][a-z0-9_]*)'
    r'|(?P<number>-?[0-9]+(?:\.[0-9]+)?)'
    rf'|"(?P<string>[{STRING_CHARACTERS}]*)"'
    r'|(?P<mark>[(){};,!#])'
)
_VALUE = re.compile(rf'([{VALUE_CHARACTERS}]{{1,{MAX_VALUE_LENGTH}}}) ')


class _Parser:
    """Recursive descent with one token of look-ahead; the position never goes back."""

    def __init__(
        self, text: str, skill_set: SkillSet, object_names: Container[str], offset: int
    ) -> None:
        self._text = text
        self._skill_set = skill_set
        self._object_names = object_names
        self._offset = offset
        self._position = 0
        # The look-ahead: its kind ('name', 'number', 'string', a mark, or '' at the end), its
        # text and where it starts.
        self._kind = ''
        self._value = ''
        self._start = 0

    def plan(self) -> tuple[Statement, ...]:
        statements: list[Statement] = []
        self._advance()
        while self._kind:
            statement = self._statement(0)
            statements.append(statement)
            # The last token read is the statement's ';', so that its observation is next.
            self._observation(statement)
            self._advance()
        return tuple(statements)

    def _statement(self, depth: int) -> Statement:
        """Parse one statement up to its ';', which stays the look-ahead."""
        if self._kind != 'name':
            raise self._unexpected('a statement')
        if self._value == 'repeat':
            statement: Statement = self._repeat(depth)
        elif self._value == 'if':
            statement = self._if(depth)
        else:
            statement = self._call()
        if self._kind != ';':
            raise self._unexpected('";"')
        return statement

    def _repeat(self, depth: int) -> Repeat:
        self._advance()
        self._take('(')
        text, start = self._value, self._start
        if self._kind != 'number':
            raise self._unexpected('a repeat count')
        count = ArgumentSpec('count', 'int', minimum=1, maximum=self._skill_set.max_repeat)
        try:
            read_argument(count, self._kind, text, ())
        except ValueError as err:
            raise ArgumentError(
                f'repeat count {text[:40]!r}: expected {err}', self._offset + start
            ) from None
        self._advance()
        self._take(')')
        return Repeat(int(text), self._block(depth))

    def _if(self, depth: int) -> If:
        self._advance()
        self._take('(')
        negated = self._kind == '!'
        if negated:
            self._advance()
        start = self._start
        if self._kind != 'name':
            raise self._unexpected('a skill that returns bool')
        condition = self._call()
        if self._skill_set.skills[condition.skill].returns != 'bool':
            raise ArgumentError(
                f'condition {condition.skill!r}: expected a skill that returns bool',
                self._offset + start,
            )
        self._take(')')
        then = self._block(depth)
        otherwise: tuple[Statement, ...] = ()
        if self._kind == 'name' and self._value == 'else':
            self._advance()
            otherwise = self._block(depth)
        return If(condition, then, otherwise, negated)

    def _block(self, depth: int) -> tuple[Statement, ...]:
        if self._kind == '{' and depth >= MAX_DEPTH:
            raise PlanSyntaxError(
                f'block inside {depth} others: expected at most {MAX_DEPTH} deep',
                self._offset + self._start,
            )
        self._take('{')
        statements: list[Statement] = []
        while self._kind != '}' or not statements:
            statements.append(self._statement(depth + 1))
            self._advance()
        self._advance()
        return tuple(statements)

    def _call(self) -> Call:
        name, start = self._value, self._start
        skill = self._skill_set.skills.get(name)
        if skill is None:
            raise UnknownSkillError(
                f'{name[:40]!r}: expected a skill of {self._skill_set.name!r}', self._offset + start
            )
        self._advance()
        if not skill.arguments:
            if self._kind == '(':
                raise ArgumentError(
                    f'{name}(: expected no arguments and no parentheses', self._offset + self._start
                )
            return Call(name)
        if self._kind != '(':
            raise ArgumentError(
                f'{name}: expected {_count(len(skill.arguments))}', self._offset + self._start
            )
        arguments: list[Argument] = []
        for spec in skill.arguments:
            # The look-ahead is the '(' or ',' before this argument.
            if arguments and self._kind != ',':
                raise self._wrong_number(skill)
            self._advance()
            arguments.append(self._argument(skill, spec))
        if self._kind != ')':
            raise self._wrong_number(skill)
        self._advance()
        return Call(name, tuple(arguments))

    def _argument(self, skill: Skill, spec: ArgumentSpec) -> Argument:
        kind, text = self._kind, self._value
        try:
            value = read_argument(spec, kind, text, self._object_names)
        except ValueError as err:
            if not kind:
                raise self._unexpected(str(err)) from None
            raise ArgumentError(
                f'{skill.name}: {spec.name} {text[:40]!r}: expected {err}',
                self._offset + self._start,
            ) from None
        self._advance()
        return Argument(spec.name, f'"{text}"' if kind == 'string' else text, value)

    def _observation(self, statement: Statement) -> None:
        """Skip the observation after a top-level blocking call, if there is one."""
        if not self._text.startswith('#', self._position):
            return
        start = self._position
        returns = 'none'
        if isinstance(statement, Call):
            returns = self._skill_set.skills[statement.skill].returns
        match = _VALUE.match(self._text, start + 1)
        if (
            returns == 'none'
            or match is None
            or (returns == 'bool' and match[1] not in ('true', 'false'))
        ):
            raise PlanSyntaxError(
                f'{self._text[start : start + 40]!r}: expected an observation only straight after '
                'a blocking call, a value and a space',
                self._offset + start,
            )
        self._position = match.end()

    def _advance(self) -> None:
        """Read the next token into the look-ahead."""
        space = _SPACE.match(self._text, self._position)
        start = self._start = space.end() if space else self._position
        match = _TOKEN.match(self._text, start)
        if match is not None:
            kind = match.lastgroup or ''
            self._value = match[kind]
            self._kind = self._value if kind == 'mark' else kind
            self._position = match.end()
        elif start == len(self._text):
            self._kind = self._value = ''
            self._position = start
        else:
            raise PlanSyntaxError(
                f'{self._text[start : start + 20]!r}: expected a name, number, string or mark',
                self._offset + start,
            )

    def _take(self, mark: str) -> None:
        if self._kind != mark:
            raise self._unexpected(f'"{mark}"')
        self._advance()

    def _unexpected(self, expected: str) -> PlanError:
        found = repr(self._value[:40]) if self._kind else 'the end'
        return PlanSyntaxError(f'{found}: expected {expected}', self._offset + self._start)

    def _wrong_number(self, skill: Skill) -> PlanError:
        if self._kind not in (',', ')'):
            return self._unexpected('"," or ")"')
        return ArgumentError(
            f'{skill.name}: {"too many" if self._kind == "," else "too few"} arguments: '
            f'expected {_count(len(skill.arguments))}',
            self._offset + self._start,
        )


def _count(number: int) -> str:
    return f'{number} argument{"s" if number > 1 else ""}'
