"""What the rules of a decoding grammar consist of.

Items that match the same text need not be equal.
"""

from __future__ import annotations

import functools
import json
import re
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Text:
    """These characters, one after the other."""

    text: str


@dataclass(frozen=True, slots=True)
class OneOf:
    """One character that a regular expression's atom matches."""

    source: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """All items, in order."""

    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of the items; none where there are no items."""

    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """An item at least and at most so often; None for no bound."""

    item: Item
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression, which is one terminal."""

    item: Item


@dataclass(frozen=True, slots=True)
class Rule:
    """Whatever a rule stands for."""

    name: str


Item = Text | OneOf | Sequence | Choice | Repeat | Pattern | Rule

EMPTY = Text('')
NOTHING = Choice(())


def sequence(*items: Item) -> Item:
    """Return all items in order, in its simplest form."""
    if NOTHING in items:
        return NOTHING
    flat: list[Item] = []
    for item in items:
        flat += item.items if isinstance(item, Sequence) else (item,)
    flat = [item for item in flat if item != EMPTY]
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat)) if flat else EMPTY


def choice(*items: Item) -> Item:
    """Return any one of the items, in its simplest form."""
    flat: dict[Item, None] = {}
    for item in items:
        flat.update(dict.fromkeys(item.items if isinstance(item, Choice) else (item,)))
    return next(iter(flat)) if len(flat) == 1 else Choice(tuple(flat))


def may_be_empty(item: Item, rules: Mapping[str, Item]) -> bool:
    """Tell whether an item matches the empty text."""
    match item:
        case Text(text):
            return not text
        case OneOf():
            return False
        case Sequence(items):
            return all(may_be_empty(each, rules) for each in items)
        case Choice(items):
            return any(may_be_empty(each, rules) for each in items)
        case Repeat(inner, least, _):
            return not least or may_be_empty(inner, rules)
        case Pattern(inner):
            return may_be_empty(inner, rules)
        case Rule(name):
            return may_be_empty(rules[name], rules)


def with_first(item: Item, take: Callable[[Text | OneOf], Item], rules: Mapping[str, Item]) -> Item:
    """Return an item in which ``take`` has replaced whatever the first character comes from."""
    match item:
        case Text() | OneOf():
            return take(item)
        case Sequence(items):
            choices: list[Item] = []
            for place, first in enumerate(items):
                choices.append(sequence(with_first(first, take, rules), *items[place + 1 :]))
                if not may_be_empty(first, rules):
                    break
            return choice(*choices)
        case Choice(items):
            return choice(*(with_first(each, take, rules) for each in items))
        case Repeat(inner, least, most):
            left = Repeat(inner, max(0, least - 1), None if most is None else most - 1)
            return sequence(with_first(inner, take, rules), EMPTY if left.most == 0 else left)
        case Pattern(inner):
            rest = with_first(inner, take, rules)
            return rest if rest in (EMPTY, NOTHING) else Pattern(rest)
        case Rule(name):
            return with_first(rules[name], take, rules)


def shortest(item: Item, rules: Mapping[str, Item]) -> str:
    """Return the shortest text that an item matches, the first of several; it must match some."""
    match item:
        case Text(text):
            return text
        case OneOf(source):
            return _likely(source)
        case Sequence(items):
            return ''.join(shortest(each, rules) for each in items)
        case Choice(items):
            return min((shortest(each, rules) for each in items), key=len)
        case Repeat(inner, least, _):
            return shortest(inner, rules) * least if least else ''
        case Pattern(inner):
            return shortest(inner, rules)
        case Rule(name):
            return shortest(rules[name], rules)


def render(item: Item, needed: dict[str, None]) -> str:
    """Return an item as part of a rule; note the rules that it refers to."""
    match item:
        case Text(text):
            return json.dumps(text)
        case Rule(name):
            needed[name] = None
            return name
        case Pattern(inner):
            if not may_be_empty(inner, {}):
                return f'/{_render_pattern(inner)}/'
            # A terminal must not be empty, so the rule may go without it instead.
            longer = with_first(inner, lambda leaf: NOTHING if leaf == EMPTY else leaf, {})
            return f'(/{_render_pattern(longer)}/)?'
        case Sequence(items):
            return ' '.join(render(each, needed) for each in items)
        case Choice(items):
            return '(' + ' | '.join(render(each, needed) for each in items) + ')'
        case Repeat(inner, least, most):
            mark = {(0, 1): '?', (0, None): '*', (1, None): '+'}[least, most]
            return f'({render(inner, needed)}){mark}'
        case OneOf(source):
            return f'/{source}/'


def _render_pattern(item: Item) -> str:
    match item:
        case OneOf(source):
            return source
        case Sequence(items):
            return ''.join(map(_render_pattern, items))
        case Choice(items):
            return '(' + '|'.join(map(_render_pattern, items)) + ')'
        case Repeat(inner, least, most):
            bounds = f'{{{least},{"" if most is None else most}}}'
            body = _render_pattern(inner)
            return (body if isinstance(inner, OneOf) else f'({body})') + bounds
        case _:
            return ''


@functools.lru_cache(maxsize=1024)
def _likely(source: str) -> str:
    return next(character for character in string.printable if matches(source, character))


@functools.lru_cache(maxsize=1024)
def _atom(source: str) -> re.Pattern[str]:
    return re.compile(source)


def matches(source: str, character: str) -> bool:
    """Tell whether a regular expression's atom matches a character."""
    if len(source) == 1 and source != '.':
        return source == character
    return _atom(source).fullmatch(character) is not None
