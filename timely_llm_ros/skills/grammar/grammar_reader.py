"""Reads what :mod:`timely_llm_ros.skills.grammar.grammar` writes, and regular expressions in it."""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING

from timely_llm_ros.errors import EngineError
from timely_llm_ros.skills.grammar.grammar_items import (
    OneOf,
    Pattern,
    Repeat,
    Rule,
    Text,
    choice,
    sequence,
)

if TYPE_CHECKING:
    from timely_llm_ros.skills.grammar.grammar_items import Item

_TOKEN = re.compile(r'\s*(?:([A-Za-z_]\w*)|("(?:[^"\\]|\\.)*")|/((?:[^/\\]|\\.)+)/|([()|?*+]))')
_PATTERN_ATOM = re.compile(
    r'\[(?:[^\]\\]|\\.)+\]|\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|[^\\\[\](){}|?*+]', re.DOTALL
)
_PATTERN_COUNT = re.compile(r'\{(\d+)(,?)(\d*)\}|[?*+]')


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
        reader = _Reader(body)
        rules[name.strip()] = reader.choice()
        reader.end()
        lines[name.strip()] = body.strip(), tuple(dict.fromkeys(reader.names))
    return rules, lines


class _Reader:
    """Reads one rule's body."""

    def __init__(self, body: str) -> None:
        self._body = body
        self._tokens = [match for match in _TOKEN.finditer(body) if match[0].strip()]
        if ''.join(match[0] for match in self._tokens).strip() != body.strip():
            raise EngineError(f'grammar rule {body[:60]!r}: expected strings, patterns and names')
        self._place = 0
        self.names: list[str] = []

    def end(self) -> None:
        if self._place < len(self._tokens):
            raise EngineError(f'grammar rule {self._body[:60]!r}: expected balanced parentheses')

    def choice(self) -> Item:
        items = [self._sequence()]
        while self._peek() == '|':
            self._place += 1
            items.append(self._sequence())
        return choice(*items)

    def _sequence(self) -> Item:
        items = []
        while self._peek() not in ('', '|', ')'):
            items.append(self._counted())
        return sequence(*items)

    def _counted(self) -> Item:
        name, text, pattern, _ = self._tokens[self._place].groups()
        self._place += 1
        item: Item
        if name:
            self.names.append(name)
            item = Rule(name)
        elif text:
            item = Text(json.loads(text))
        elif pattern:
            item = Pattern(_PatternReader(pattern).read())
        else:
            item = self.choice()
            if self._peek() != ')':
                raise EngineError(f'grammar rule {self._body[:60]!r}: expected ")"')
            self._place += 1
        bounds = {'?': (0, 1), '*': (0, None), '+': (1, None)}.get(self._peek())
        if bounds is None:
            return item
        self._place += 1
        return Repeat(item, *bounds)

    def _peek(self) -> str:
        """Return the next token if it is a mark, something else that is no mark otherwise."""
        if self._place == len(self._tokens):
            return ''
        return self._tokens[self._place][4] or 'item'


class _PatternReader:
    """Reads a regular expression of those that our grammars have."""

    def __init__(self, source: str) -> None:
        self._source, self._place = source, 0

    def read(self) -> Item:
        item = self._choice()
        if self._place < len(self._source):
            raise EngineError(f'pattern {self._source[:60]!r}: expected an end at {self._place}')
        return item

    def _choice(self) -> Item:
        items = [self._sequence()]
        while self._source.startswith('|', self._place):
            self._place += 1
            items.append(self._sequence())
        return choice(*items)

    def _sequence(self) -> Item:
        items: list[Item] = []
        while self._place < len(self._source) and self._source[self._place] not in '|)':
            items.append(self._counted())
        return sequence(*items)

    def _counted(self) -> Item:
        item: Item
        if self._source.startswith('(', self._place):
            self._place += 3 if self._source.startswith('(?:', self._place) else 1
            item = self._choice()
            self._place += 1
        else:
            atom = _PATTERN_ATOM.match(self._source, self._place)
            if atom is None:
                raise EngineError(
                    f'pattern {self._source[:60]!r}: expected a character at {self._place}'
                )
            self._place = atom.end()
            item = OneOf(atom[0])
        count = _PATTERN_COUNT.match(self._source, self._place)
        if count is None:
            return item
        self._place = count.end()
        if count[1] is None:
            return Repeat(item, *{'?': (0, 1), '*': (0, None), '+': (1, None)}[count[0]])
        least = int(count[1])
        most = None if count[2] and not count[3] else int(count[3] or least)
        return Repeat(item, least, most)
