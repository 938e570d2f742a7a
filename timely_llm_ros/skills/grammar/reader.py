"""Reads what :mod:`timely_llm_ros.skills.grammar.grammar` writes, and regular expressions in it."""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING

from timely_llm_ros.errors import EngineError
from timely_llm_ros.skills.grammar.items import (
    OneOf,
    Pattern,
    Repeat,
    Rule,
    Text,
    choice,
    render,
    sequence,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.skills.grammar.items import Item

_RULE_TOKEN = re.compile(
    r'\s*(?:(?P<leaf>[A-Za-z_]\w*|"(?:[^"\\]|\\.)*"|/(?:[^/\\]|\\.)+/)'
    r'|(?P<mark>[()|])|(?P<count>[?*+]))'
)
_PATTERN_TOKEN = re.compile(
    r'(?P<leaf>\[(?:[^\]\\]|\\.)+\]|\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|[^\\\[\](){}|?*+])'
    r'|(?P<mark>\((?:\?:)?|[)|])|(?P<count>\{\d+,?\d*\}|[?*+])',
    re.DOTALL,
)
_BOUNDS: dict[str, tuple[int, int | None]] = {'?': (0, 1), '*': (0, None), '+': (1, None)}


@functools.lru_cache(maxsize=64)
def read_grammar(grammar: str) -> tuple[dict[str, Item], dict[str, tuple[str, tuple[str, ...]]]]:
    """Return each rule, and each rule's text with the names that it refers to.

    Raises:
        EngineError: It is not in the dialect that is read here.
    """
    rules: dict[str, Item] = {}
    lines: dict[str, tuple[str, tuple[str, ...]]] = {}
    for line in grammar.splitlines():
        name, colon, body = line.partition(':')
        if not colon:
            raise EngineError(f'grammar line {line[:60]!r}: expected a rule')
        item = _Reader('grammar rule', body.strip(), _RULE_TOKEN, _rule_leaf).read()
        needed: dict[str, None] = {}
        rules[name.strip()] = item
        lines[name.strip()] = render(item, needed), tuple(needed)
    return rules, lines


def _rule_leaf(token: str) -> Item:
    match token[0]:
        case '"':
            return Text(json.loads(token))
        case '/':
            return Pattern(_Reader('pattern', token[1:-1], _PATTERN_TOKEN, OneOf).read())
        case _:
            return Rule(token)


class _Reader:
    """Reads a choice of sequences of counted leaves, as both rules and patterns are.

    A ``token`` is a leaf, a mark or a count; ``leaf`` returns the item of a leaf's text.
    """

    def __init__(
        self, what: str, text: str, token: re.Pattern[str], leaf: Callable[[str], Item]
    ) -> None:
        self._what, self._text, self._leaf = what, text, leaf
        self._tokens: list[tuple[str | None, str]] = []
        place = 0
        while place < len(text):
            found = token.match(text, place)
            if found is None:
                raise self._error(f'something else at {place}')
            self._tokens.append((found.lastgroup, found[found.lastgroup or 0]))
            place = found.end()
        self._tokens.reverse()

    def read(self) -> Item:
        item = self._choice()
        if self._tokens:
            raise self._error('balanced parentheses')
        return item

    def _choice(self) -> Item:
        items = [self._sequence()]
        while self._next() == '|':
            self._tokens.pop()
            items.append(self._sequence())
        return choice(*items)

    def _sequence(self) -> Item:
        items: list[Item] = []
        while self._next() not in ('', '|', ')'):
            items.append(self._counted())
        return sequence(*items)

    def _counted(self) -> Item:
        kind, text = self._tokens.pop()
        if kind == 'leaf':
            item = self._leaf(text)
        elif kind == 'mark':
            item = self._choice()
            if not self._tokens:
                raise self._error('balanced parentheses')
            self._tokens.pop()
        else:
            raise self._error(f'something before {text!r}')
        if not self._tokens or self._tokens[-1][0] != 'count':
            return item
        count = self._tokens.pop()[1]
        if count in _BOUNDS:
            return Repeat(item, *_BOUNDS[count])
        least, comma, most = count[1:-1].partition(',')
        return Repeat(item, int(least), int(most or least) if most or not comma else None)

    def _next(self) -> str:
        """Return the next token if it is a mark, other text if it is none, nothing at the end."""
        if not self._tokens:
            return ''
        kind, text = self._tokens[-1]
        return text if kind == 'mark' else 'item'

    def _error(self, expected: str) -> EngineError:
        return EngineError(f'{self._what} {self._text[:60]!r}: expected {expected}')
