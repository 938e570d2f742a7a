"""Decodes CDR messages by the definitions that a trace carries; neither of them is trusted."""

from __future__ import annotations

import re
import struct
import sys
from array import array
from dataclasses import dataclass
from typing import Any

MAX_MESSAGE_BYTES = 40_000_000
"""A message that would take more than about this much memory (bytes) is not decoded."""

MAX_FIELDS = 20_000
"""Definitions with more fields than this together are not read."""

TYPE_FIELDS = 5
"""A type takes about as much memory as this many fields."""

_CODES = {
    'bool': '?', 'byte': 'B', 'char': 'B', 'int8': 'b', 'uint8': 'B', 'int16': 'h', 'uint16': 'H',
    'int32': 'i', 'uint32': 'I', 'int64': 'q', 'uint64': 'Q', 'float32': 'f', 'float64': 'd',
}  # fmt: skip
"""The numbers of ROS 2 as ``struct`` and ``array`` call them."""

_NUMBERS = {
    big: {name: struct.Struct(('>' if big else '<') + code) for name, code in _CODES.items()}
    for big in (False, True)
}
_VALUE_BYTES = 64
"""What a number, an empty text or a message without fields takes, roughly."""

_PART = re.compile(r'^={3,}$', re.MULTILINE)
_PART_NAME = re.compile(r'\s*MSG:[ \t]+(\S+)[ \t]*$', re.MULTILINE)
_FIELD = re.compile(
    r'\s*([A-Za-z][A-Za-z0-9_]*(?:/[A-Za-z0-9_]+){0,2})(?:<=\d+)?'
    r'(?:\[(?P<size>|<=\d{1,18}|[1-9]\d{0,17})\])?\s+(?:(?P<name>[a-z][a-z0-9_]*)(?![A-Za-z0-9_]|\s*=)|'
    r'[A-Za-z][A-Za-z0-9_]*\s*=)'
)
_UNNAMED = {'builtin_interfaces/Time': 'uint32', 'builtin_interfaces/Duration': 'int32'}
"""Types whose definition some recorders leave out, and that of their first field."""


@dataclass(slots=True)
class _Type:
    """A message type: its fields with their types, and how many items each has."""

    make: type
    fields: list[tuple[str, _Type | str, int | None]]
    """The number of items is None for a single value and -1 where the message says it."""


class Decoder:
    """Decodes the messages of one type, given by its name and its definition in ``ros2msg``.

    Messages become objects with the definition's field names; arrays of numbers become ``bytes``
    or ``array``.

    Raises:
        ValueError: It is no such definition, or has more than ``max_fields`` fields.
    """

    def __init__(self, name: str, text: str, *, max_fields: int = MAX_FIELDS) -> None:
        self.size = 0
        """Its fields, where each type counts as some."""
        self._max_fields = max_fields
        types = {short: self._type(short, f'{first} sec\nuint32 nanosec')
                 for short, first in _UNNAMED.items()}  # fmt: skip
        self._root = self._type(name, '')
        for index, part in enumerate(_PART.split(text)):
            title = _PART_NAME.match(part)
            full = title[1] if title is not None else name
            made = self._type(full, part[title.end() :] if title is not None else part)
            types[_short(full)] = made
            if index == 0:
                self._root = made
        for one in types.values():
            one.fields = [
                (field, types.get(kind, kind) if isinstance(kind, str) else kind, count)
                for field, kind, count in one.fields
            ]

    def _type(self, name: str, text: str) -> _Type:
        fields: list[tuple[str, _Type | str, int | None]] = []
        self._count(TYPE_FIELDS)
        for line in text.splitlines():
            if not line.strip() or line.lstrip().startswith('#'):
                continue
            found = _FIELD.match(line)
            if found is None:
                raise ValueError(f'line {line[:80]!r}: expected a field or a constant')
            if found['name'] is None:
                continue
            self._count(1)
            kind, size = found[1], found['size']
            if kind not in _CODES and kind not in ('string', 'wstring'):
                kind = 'std_msgs/Header' if kind == 'Header' else kind
                kind = _short(kind if '/' in kind else f'{name.split("/")[0]}/{kind}')
            count = None if size is None else int(size) if size.isdigit() else -1
            fields.append((found['name'], kind, count))
        names = [field for field, _, _ in fields]
        if len(names) != len(set(names)):
            raise ValueError(f'type {name[:80]!r}: expected each field once')
        return _Type(type(_short(name), (), {'__slots__': names}), fields)

    def _count(self, fields: int) -> None:
        self.size += fields
        if self.size > self._max_fields:
            raise ValueError(f'more than {self._max_fields} fields: expected fewer')

    def __call__(self, data: bytes) -> Any:
        """Return a message.

        Raises:
            ValueError: The bytes do not fit the definition, or the message is too large.
        """
        return _Cdr(data).message(self._root)


def _short(name: str) -> str:
    """Return ``package/Type`` of ``package/msg/Type``."""
    parts = name.split('/')
    return f'{parts[0]}/{parts[-1]}'


class _Cdr:
    """A position in a serialised message, and how much memory its values may still take."""

    __slots__ = ('_data', '_left', '_numbers', '_place', '_swapped')

    def __init__(self, data: bytes) -> None:
        if len(data) < 4:
            raise ValueError(f'{len(data)} bytes: expected at least 4')
        big = not data[1] & 1
        self._data, self._place, self._left = data, 4, MAX_MESSAGE_BYTES
        self._numbers, self._swapped = _NUMBERS[big], big is (sys.byteorder == 'little')

    def message(self, kind: _Type) -> Any:
        self._charge(_VALUE_BYTES + 40 * len(kind.fields))
        made = kind.make()
        for name, what, count in kind.fields:
            setattr(made, name, self._value(what) if count is None else self._items(what, count))
        if not kind.fields:
            # rosidl gives it a byte, since no type of IDL may be empty.
            self._take(1)
        return made

    def _value(self, what: _Type | str) -> Any:
        if isinstance(what, _Type):
            return self.message(what)
        if what == 'string':
            return self._text()
        if what not in self._numbers:
            raise ValueError(f'type {what[:80]!r}: expected one that ROS 2 knows, not wstring')
        return self._number(what)

    def _number(self, what: str) -> Any:
        layout = self._numbers[what]
        return layout.unpack_from(self._data, self._take(layout.size, layout.size))[0]

    def _text(self) -> str:
        length = self._number('uint32')
        start = self._take(length)
        # As UTF-32, which one letter is enough for.
        self._charge(_VALUE_BYTES + 4 * length)
        return str(self._data[start : start + length - 1], 'utf-8') if length > 1 else ''

    def _items(self, what: _Type | str, count: int) -> Any:
        length = self._number('uint32') if count < 0 else count
        if not isinstance(what, str) or what not in self._numbers:
            return [self._value(what) for _ in range(length)]
        size = self._numbers[what].size
        # An array without items is not aligned to what they would be.
        start = self._take(length * size, size if length else 1)
        found = self._data[start : start + length * size]
        if what == 'bool':
            self._charge(8 * length)
            return list(map(bool, found))
        if _CODES[what] == 'B':
            return found
        items = array(_CODES[what], found)
        if self._swapped:
            items.byteswap()
        return items

    def _take(self, length: int, alignment: int = 1) -> int:
        """Move behind the next ``length`` bytes, and return where they begin."""
        start = self._place + (4 - self._place) % alignment
        if start + length > len(self._data):
            raise ValueError(f'{len(self._data)} bytes: expected {start + length} or more')
        self._place = start + length
        return start

    def _charge(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ValueError(f'more than {MAX_MESSAGE_BYTES} bytes as values: expected fewer')
