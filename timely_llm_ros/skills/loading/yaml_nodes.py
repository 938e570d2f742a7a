"""Typed reading of YAML values that know their lines, for errors that name file, line and key.

The text is composed to nodes and never constructed to objects. Anchors, aliases, tags and deep
nesting are refused before that, so that reading takes time linear in the text's length.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NoReturn, TypeVar

import yaml

from timely_llm_ros.errors import SkillSetError
from timely_llm_ros.skills.scene import WORD_EXPECTED, is_word

if TYPE_CHECKING:
    from collections.abc import Callable

S = TypeVar('S', bound=str)

MAX_DEPTH = 20
"""Nesting of a file; a skill set needs 7, the goals of some ROS actions 16."""

MAX_DESCRIPTION_LENGTH = 80
"""Characters that a description may have."""

_TAG = 'tag:yaml.org,2002:'
# No leading zeros: YAML 1.1 reads 010 as eight.
_INT = re.compile(r'[+-]?(?:0|[1-9][0-9]{0,11})')
_FLOAT = re.compile(r'[+-]?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?')


def compose(text: str, source: str) -> YamlValue:
    """Compose YAML text; ``source`` is what errors call it.

    Raises:
        SkillSetError: It is not plain YAML.
    """
    line, depth = 1, 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if event.start_mark is not None:
                line = event.start_mark.line + 1
            for key, what in (('anchor', 'anchor or alias'), ('tag', 'tag')):
                found = getattr(event, key, None)
                if found is not None:
                    problem = f'{what} {found!r}: expected plain values'
                    raise SkillSetError(source, line, 'file', problem)
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > MAX_DEPTH:
                raise SkillSetError(
                    source, line, 'file', f'nested too deeply: expected at most {MAX_DEPTH} levels'
                )
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as err:
        if err.problem_mark is not None:
            line = err.problem_mark.line + 1
        problem = ' '.join(filter(None, (err.context, err.problem)))
        raise SkillSetError(source, line, 'file', f'{problem}: expected YAML') from err
    except yaml.reader.ReaderError as err:
        line = text.count('\n', 0, err.position) + 1
        raise SkillSetError(
            source,
            line,
            'file',
            f'character {ord(text[err.position]):#04x}: expected printable text',
        ) from err
    if node is None:
        raise SkillSetError(source, 1, 'file', 'nothing: expected keys with values')
    return YamlValue(node, source, '', 1)


class YamlValue:
    """One YAML value, with its dotted path and its line for errors.

    Every reader raises ``SkillSetError`` where the value is not what it returns.
    """

    def __init__(self, node: yaml.Node, source: str, path: str, line: int) -> None:
        self._node, self._source, self._path, self._line = node, source, path, line

    def refuse(self, problem: str, *, key: str = '', line: int | None = None) -> NoReturn:
        """Raise the error that names this value, or a key within it."""
        path = '.'.join(filter(None, (self._path, key))) or 'file'
        raise SkillSetError(self._source, line or self._line, path, problem)

    @property
    def place(self) -> str:
        """File and line."""
        return f'{self._source}:{self._line}'

    @property
    def form(self) -> Literal['mapping', 'list', 'text', 'other']:
        """What this is; ``other`` is a number, true or false, or nothing."""
        if isinstance(self._node, yaml.MappingNode):
            return 'mapping'
        if isinstance(self._node, yaml.SequenceNode):
            return 'list'
        return 'text' if self._node.tag == f'{_TAG}str' else 'other'

    def has(self, key: str) -> bool:
        """Whether this is a mapping with that key; what else it is does not matter."""
        return isinstance(self._node, yaml.MappingNode) and any(
            isinstance(node, yaml.ScalarNode) and node.value == key for node, _ in self._node.value
        )

    def mapping(
        self,
        *,
        required: tuple[str, ...] = (),
        optional: tuple[str, ...] = (),
        any_key: bool = False,
    ) -> dict[str, YamlValue]:
        """Return the values by key. ``any_key`` allows every word as a key."""
        if not isinstance(self._node, yaml.MappingNode):
            self.refuse(f'{self._text()}: expected keys with values')
        found: dict[str, YamlValue] = {}
        for key_node, value_node in self._node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else ''
            line = _line_of(key_node)
            if any_key and not is_word(key):
                self.refuse(f'key {key[:40]!r}: expected {WORD_EXPECTED}', line=line)
            if not any_key and key not in required + optional:
                self.refuse(
                    f'unknown key: expected one of {", ".join(required + optional)}',
                    key=key[:40],
                    line=line,
                )
            if key in found:
                self.refuse('given twice: expected once', key=key, line=line)
            if isinstance(value_node, yaml.ScalarNode):
                line = _line_of(value_node)
            path = '.'.join(filter(None, (self._path, key)))
            found[key] = YamlValue(value_node, self._source, path, line)
        for key in required:
            if key not in found:
                self.refuse(f'missing: expected {key!r} here', key=key)
        return found

    def sequence(self, limit: int) -> list[YamlValue]:
        """Return the 1 to ``limit`` values of a list."""
        if not isinstance(self._node, yaml.SequenceNode):
            self.refuse(f'{self._text()}: expected a list')
        nodes = self._node.value
        if not 1 <= len(nodes) <= limit:
            self.refuse(f'{len(nodes)} values: expected 1 to {limit}')
        return [
            YamlValue(node, self._source, f'{self._path}[{index}]', _line_of(node))
            for index, node in enumerate(nodes)
        ]

    def words(self, limit: int) -> tuple[str, ...]:
        """Return a list of different words."""
        found: list[str] = []
        for item in self.sequence(limit):
            word = item.word()
            if word in found:
                item.refuse(f'{word!r} given twice: expected once')
            found.append(word)
        return tuple(found)

    def word(self) -> str:
        """Return lower-case words joined by underscores."""
        return self._scalar('str', WORD_EXPECTED, is_word)

    def description(self) -> str:
        """Return one short line of text."""
        return self.line(MAX_DESCRIPTION_LENGTH)

    def line(self, longest: int) -> str:
        """Return one line of text, with single spaces only."""
        return self._scalar(
            'str',
            f'one line of 1 to {longest} printable characters',
            lambda text: (
                0 < len(text) <= longest and text.isprintable() and text == ' '.join(text.split())
            ),
        )

    def one_of(self, choices: tuple[S, ...], what: str = '') -> S:
        """Return one of the choices."""
        listed = ', '.join(choice or "''" for choice in choices)
        wanted = f'{what}, one of {listed}' if what else f'one of {listed}'
        text = self._scalar('str', wanted, lambda text: text in choices)
        return next(choice for choice in choices if choice == text)

    def boolean(self) -> bool:
        """Return true or false."""
        return (
            self._scalar('bool', 'true or false', lambda text: text in ('true', 'false')) == 'true'
        )

    def integer(self, low: int, high: int) -> int:
        """Return an integer within bounds."""
        return int(
            self._scalar(
                'int',
                f'an integer from {low} to {high}',
                lambda text: bool(_INT.fullmatch(text)) and low <= int(text) <= high,
            )
        )

    def number(self, low: float, high: float, decimals: int | None = None) -> float:
        """Return a number within bounds, with at most so many decimals."""
        wanted = f'a number from {low:g} to {high:g}'
        if decimals is not None:
            wanted += f' with at most {decimals} decimals'

        def fits(text: str) -> bool:
            if not _FLOAT.fullmatch(text) or not low <= float(text) <= high:
                return False
            return decimals is None or round(float(text), decimals) == float(text)

        return float(self._scalar('number', wanted, fits)) + 0.0  # no negative zero

    def _scalar(self, kind: str, wanted: str, fits: Callable[[str], bool]) -> str:
        node = self._node
        if not isinstance(node, yaml.ScalarNode):
            self.refuse(f'{self._text()}: expected {wanted}')
        tag = node.tag.removeprefix(_TAG)
        allowed = {'number': ('int', 'float', 'str') if node.style is None else ('int', 'float')}
        # YAML 1.1 reads a bare "no", "on" or "1:30" as something else than text: a quoted one is
        # text. It reads "1e3" as text: that is a number to everybody else.
        if tag not in allowed.get(kind, (kind,)) or not fits(node.value):
            hint = ' (quote it to mean text)' if kind == 'str' and tag != 'str' else ''
            self.refuse(f'{self._text()}: expected {wanted}{hint}')
        return str(node.value)

    def _text(self) -> str:
        if isinstance(self._node, yaml.ScalarNode):
            return repr(self._node.value[:60])
        return 'a list' if isinstance(self._node, yaml.SequenceNode) else 'keys with values'


def _line_of(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1 if node.start_mark is not None else 0
