"""What a plan is made of, once its text has been parsed: calls, loops and choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.pickling import pickled_as_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

KEYWORDS = ('repeat', 'if', 'else')
"""Words of the plan language, which neither a skill nor an object may have as its name."""


@pickled_as_call
@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call.

    Attributes:
        name: The argument's name in the skill set.
        text: What plan text says, a string with its quotes.
        value: Its value: a number in SI units, or the text of a string, object or choice.
    """

    name: str
    text: str
    value: float | int | str


@pickled_as_call
@dataclass(frozen=True, slots=True)
class Call:
    """One use of a skill."""

    skill: str
    arguments: tuple[Argument, ...] = ()

    @property
    def text(self) -> str:
        """The call as plan text in its shortest form, without a semicolon."""
        if not self.arguments:
            return self.skill
        return f'{self.skill}({",".join(argument.text for argument in self.arguments)})'


@pickled_as_call
@dataclass(frozen=True, slots=True)
class Repeat:
    """Statements that run ``count`` times."""

    count: int
    body: tuple[Statement, ...]


@pickled_as_call
@dataclass(frozen=True, slots=True)
class If:
    """Statements that depend on the value of a blocking skill, read when they run."""

    condition: Call
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()
    negated: bool = False


Statement = Call | Repeat | If
"""What a plan is a sequence of."""


def calls_of(statements: Iterable[Statement]) -> Iterator[Call]:
    """Yield every call in text order, conditions included, loops not unrolled."""
    for statement in statements:
        match statement:
            case Call():
                yield statement
            case Repeat():
                yield from calls_of(statement.body)
            case If():
                yield statement.condition
                yield from calls_of(statement.then)
                yield from calls_of(statement.otherwise)


def render(statements: Iterable[Statement]) -> str:
    """Return statements as plan text in its shortest form."""
    parts: list[str] = []
    for statement in statements:
        match statement:
            case Call():
                parts.append(statement.text)
            case Repeat():
                parts.append(f'repeat({statement.count}){{{render(statement.body)}}}')
            case If():
                mark = '!' if statement.negated else ''
                parts.append(f'if({mark}{statement.condition.text}){{{render(statement.then)}}}')
                if statement.otherwise:
                    parts.append(f'else{{{render(statement.otherwise)}}}')
        parts.append(';')
    return ''.join(parts)
