r"""What is left of a decoding grammar after some text: for a plan that is continued elsewhere.

A server that is asked to go on with a plan masks its choices with a grammar that begins where the
text so far ends. That grammar is the derivative of the first one by that text (Brzozowski, 1964)::

    rest = GrammarRest('start: "land;" | "turn(" T_N ");"\nT_N: /[1-9][0-9]?/\n')
    rest.take('turn(1')
    rest.text()  # 'start: (/[0-9]/)? ");"'

It reads what :mod:`timely_llm_ros.skills.grammar` writes: rules of strings, patterns, references,
groups and ``? * +``, none of them left-recursive.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass

from timely_llm_ros.errors import EngineError


@dataclass(frozen=True, slots=True)
class _Text:
    """These characters, one after the other."""

    text: str


@dataclass(frozen=True, slots=True)
class _OneOf:
    """One character that a regular expression's atom matches."""

    source: str


@dataclass(frozen=True, slots=True)
class _Sequence:
    """All items, in order."""

    items: tuple[_Item, ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    """Any one of the items; none where there are no items."""

    items: tuple[_Item, ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    """An item at least and at most so often; None for no bound."""

    item: _Item
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A regular expression, which is one terminal."""

    item: _Item


@dataclass(frozen=True, slots=True)
class _Rule:
    """Whatever a rule stands for."""

    name: str


_Item = _Text | _OneOf | _Sequence | _Choice | _Repeat | _Pattern | _Rule

_EMPTY = _Text('')
_NOTHING = _Choice(())


class GrammarRest:
    """A grammar, and where in it a text has come.

    Args:
        grammar: The grammar of the whole text.

    Raises:
        EngineError: It is not in the dialect that is read here.
    """

    def __init__(self, grammar: str) -> None:
        self._rules, self._lines = _parsed(grammar)
        self._whole = grammar
        self._rest: _Item = _Rule('start')

    def take(self, text: str) -> None:
        """Go on by ``text``.

        Raises:
            EngineError: The grammar does not allow it.
        """
        for place, character in enumerate(text):
            rest = self._derive(self._rest, character)
            if rest == _NOTHING:
                raise EngineError(
                    f'{text[: place + 1][-60:]!r}: expected text that the grammar allows'
                )
            self._rest = rest

    @property
    def complete(self) -> bool:
        """Whether the text may end here."""
        return self._nullable(self._rest)

    def text(self) -> str:
        """Return the grammar of what may follow."""
        if self._rest == _Rule('start'):
            return self._whole
        needed: dict[str, None] = {}
        body = _render(self._rest, needed)
        names = list(needed)
        for name in names:  # grows meanwhile: rules refer to further rules
            names += [other for other in self._lines[name][1] if other not in names]
        lines = [f'{name}: {self._lines[name][0]}' for name in names]
        return '\n'.join([f'start: {body}', *lines]) + '\n'

    def _nullable(self, item: _Item) -> bool:
        match item:
            case _Text(text):
                return not text
            case _OneOf():
                return False
            case _Sequence(items):
                return all(map(self._nullable, items))
            case _Choice(items):
                return any(map(self._nullable, items))
            case _Repeat(inner, least, _):
                return not least or self._nullable(inner)
            case _Pattern(inner):
                return self._nullable(inner)
            case _Rule(name):
                return self._nullable(self._rules[name])

    def _derive(self, item: _Item, character: str) -> _Item:
        """Return what must follow ``character`` where ``item`` is expected."""
        match item:
            case _Text(text):
                return _Text(text[1:]) if text[:1] == character else _NOTHING
            case _OneOf(source):
                return _EMPTY if _matches(source, character) else _NOTHING
            case _Sequence(items):
                choices: list[_Item] = []
                for place, first in enumerate(items):
                    choices.append(_sequence(self._derive(first, character), *items[place + 1 :]))
                    if not self._nullable(first):
                        break
                return _choice(*choices)
            case _Choice(items):
                return _choice(*(self._derive(each, character) for each in items))
            case _Repeat(inner, least, most):
                left = _Repeat(inner, max(0, least - 1), None if most is None else most - 1)
                after = _EMPTY if left.most == 0 else left
                return _sequence(self._derive(inner, character), after)
            case _Pattern(inner):
                rest = self._derive(inner, character)
                return rest if rest in (_EMPTY, _NOTHING) else _Pattern(rest)
            case _Rule(name):
                return self._derive(self._rules[name], character)


def _sequence(*items: _Item) -> _Item:
    if _NOTHING in items:
        return _NOTHING
    flat: list[_Item] = []
    for item in items:
        flat += item.items if isinstance(item, _Sequence) else (item,)
    flat = [item for item in flat if item != _EMPTY]
    return flat[0] if len(flat) == 1 else _Sequence(tuple(flat)) if flat else _EMPTY


def _choice(*items: _Item) -> _Item:
    flat: dict[_Item, None] = {}
    for item in items:
        flat.update(dict.fromkeys(item.items if isinstance(item, _Choice) else (item,)))
    return next(iter(flat)) if len(flat) == 1 else _Choice(tuple(flat))


def _not_empty(item: _Item) -> _Item:
    """Return what a part of a pattern matches, without the empty text."""
    match item:
        case _OneOf():
            return item
        case _Sequence(items):
            choices = []
            for place, first in enumerate(items):
                choices.append(_sequence(_not_empty(first), *items[place + 1 :]))
                if not _may_be_empty(first):
                    break
            return _choice(*choices)
        case _Choice(items):
            return _choice(*map(_not_empty, items))
        case _Repeat(inner, least, most):
            after = _Repeat(inner, max(0, least - 1), None if most is None else most - 1)
            return _sequence(_not_empty(inner), _EMPTY if after.most == 0 else after)
        case _:
            return _NOTHING


def _may_be_empty(item: _Item) -> bool:
    """Tell whether a part of a pattern matches the empty text."""
    match item:
        case _Sequence(items):
            return all(map(_may_be_empty, items))
        case _Choice(items):
            return any(map(_may_be_empty, items))
        case _Repeat(inner, least, _):
            return not least or _may_be_empty(inner)
        case _:
            return item == _EMPTY


def _render(item: _Item, needed: dict[str, None]) -> str:
    """Return an item as part of a rule; note the rules that it refers to."""
    match item:
        case _Text(text):
            return json.dumps(text)
        case _Rule(name):
            needed[name] = None
            return name
        case _Pattern(inner):
            if not _may_be_empty(inner):
                return f'/{_render_pattern(inner)}/'
            # A terminal must not be empty, so the rule may go without it instead.
            return f'(/{_render_pattern(_not_empty(inner))}/)?'
        case _Sequence(items):
            return ' '.join(_render(each, needed) for each in items)
        case _Choice(items):
            return '(' + ' | '.join(_render(each, needed) for each in items) + ')'
        case _Repeat(inner, least, most):
            mark = {(0, 1): '?', (0, None): '*', (1, None): '+'}[least, most]
            return f'({_render(inner, needed)}){mark}'
        case _OneOf(source):
            return f'/{source}/'


def _render_pattern(item: _Item) -> str:
    match item:
        case _OneOf(source):
            return source
        case _Sequence(items):
            return ''.join(map(_render_pattern, items))
        case _Choice(items):
            return '(' + '|'.join(map(_render_pattern, items)) + ')'
        case _Repeat(inner, least, most):
            bounds = f'{{{least},{"" if most is None else most}}}'
            body = _render_pattern(inner)
            return (body if isinstance(inner, _OneOf) else f'({body})') + bounds
        case _:
            return ''


@functools.lru_cache(maxsize=1024)
def _atom(source: str) -> re.Pattern[str]:
    return re.compile(source)


def _matches(source: str, character: str) -> bool:
    if len(source) == 1 and source != '.':
        return source == character
    return _atom(source).fullmatch(character) is not None


# Reading -------------------------------------------------------------------------------------

_TOKEN = re.compile(r'\s*(?:([A-Za-z_]\w*)|("(?:[^"\\]|\\.)*")|/((?:[^/\\]|\\.)+)/|([()|?*+]))')
_PATTERN_ATOM = re.compile(
    r'\[(?:[^\]\\]|\\.)+\]|\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|[^\\\[\](){}|?*+]', re.DOTALL
)
_PATTERN_COUNT = re.compile(r'\{(\d+)(,?)(\d*)\}|[?*+]')


@functools.lru_cache(maxsize=64)
def _parsed(grammar: str) -> tuple[dict[str, _Item], dict[str, tuple[str, tuple[str, ...]]]]:
    """Return each rule, and each rule's text with the names that it refers to."""
    rules: dict[str, _Item] = {}
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

    def choice(self) -> _Item:
        items = [self._sequence()]
        while self._peek() == '|':
            self._place += 1
            items.append(self._sequence())
        return _choice(*items)

    def _sequence(self) -> _Item:
        items = []
        while self._peek() not in ('', '|', ')'):
            items.append(self._counted())
        return _sequence(*items)

    def _counted(self) -> _Item:
        name, text, pattern, _ = self._tokens[self._place].groups()
        self._place += 1
        item: _Item
        if name:
            self.names.append(name)
            item = _Rule(name)
        elif text:
            item = _Text(json.loads(text))
        elif pattern:
            item = _Pattern(_PatternReader(pattern).read())
        else:
            item = self.choice()
            if self._peek() != ')':
                raise EngineError(f'grammar rule {self._body[:60]!r}: expected ")"')
            self._place += 1
        bounds = {'?': (0, 1), '*': (0, None), '+': (1, None)}.get(self._peek())
        if bounds is None:
            return item
        self._place += 1
        return _Repeat(item, *bounds)

    def _peek(self) -> str:
        """Return the next token if it is a mark, something else that is no mark otherwise."""
        if self._place == len(self._tokens):
            return ''
        return self._tokens[self._place][4] or 'item'


class _PatternReader:
    """Reads a regular expression of those that our grammars have."""

    def __init__(self, source: str) -> None:
        self._source, self._place = source, 0

    def read(self) -> _Item:
        item = self._choice()
        if self._place < len(self._source):
            raise EngineError(f'pattern {self._source[:60]!r}: expected an end at {self._place}')
        return item

    def _choice(self) -> _Item:
        items = [self._sequence()]
        while self._source.startswith('|', self._place):
            self._place += 1
            items.append(self._sequence())
        return _choice(*items)

    def _sequence(self) -> _Item:
        items: list[_Item] = []
        while self._place < len(self._source) and self._source[self._place] not in '|)':
            items.append(self._counted())
        return _sequence(*items)

    def _counted(self) -> _Item:
        item: _Item
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
            item = _OneOf(atom[0])
        count = _PATTERN_COUNT.match(self._source, self._place)
        if count is None:
            return item
        self._place = count.end()
        if count[1] is None:
            return _Repeat(item, *{'?': (0, 1), '*': (0, None), '+': (1, None)}[count[0]])
        least = int(count[1])
        most = None if count[2] and not count[3] else int(count[3] or least)
        return _Repeat(item, least, most)
