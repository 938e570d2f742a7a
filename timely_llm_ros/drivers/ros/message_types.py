"""ROS types by name, and what their fields are. Nothing is imported that nobody names.

Generated classes say themselves which fields they have, so that this needs no ROS client library.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import Any

from timely_llm_ros.errors import ConfigurationError

_NAME = re.compile(r'([a-z][a-z0-9_]*)/(action|srv|msg)/([A-Z][A-Za-z0-9]*)')
_SEQUENCE = re.compile(r'sequence<(.+?)(?:, (\d+))?>')
_ARRAY = re.compile(r'(.+)\[(\d+)\]')
_STRING = re.compile(r'w?string(?:<(\d+)>)?')

_WORDS = {'action': 'actions', 'srv': 'services', 'msg': 'messages'}

_BITS = {f'{sign}int{bits}': (sign, bits) for sign in ('', 'u') for bits in (8, 16, 32, 64)}
_FLOATS = ('float', 'double')

MOST_SHOWN = 40
"""Names that an error lists."""


def find_type(name: str) -> Any:
    """Return the generated class of a type such as ``nav2_msgs/action/Wait``.

    Raises:
        ConfigurationError: There is none.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ConfigurationError(
            f'type {name!r}: expected package, action, srv or msg, and name, '
            'for example nav2_msgs/action/Wait'
        )
    package, part, word = match.groups()
    try:
        module = importlib.import_module(f'{package}.{part}')
    except ImportError as err:
        raise ConfigurationError(
            f'type {name!r}: package {package!r} with {_WORDS[part]}: expected it to be installed '
            f'and its workspace to be sourced: {err}'
        ) from err
    found = getattr(module, word, None)
    if found is None:
        # Those with an underscore are what actions and services are made of.
        there = [known for known in dir(module) if known[:1].isupper() and '_' not in known]
        listed = ', '.join(there[:MOST_SHOWN]) or 'none'
        raise ConfigurationError(
            f'type {name!r}: expected one of the {_WORDS[part]} of {package}: {listed}'
        )
    return found


def find_message(name: str) -> Any:
    """Return the class of a field's message type, such as ``geometry_msgs/Pose``."""
    package, _, word = name.rpartition('/')
    return find_type(f'{package}/msg/{word}')


def fields_of(message: Any) -> dict[str, str]:
    """Return the fields of a message class with their types."""
    found: dict[str, str] = message.get_fields_and_field_types()
    return found


def type_name_of(message: Any) -> str:
    """Return what errors call a message class."""
    return f'{message.__module__.split(".")[0]}/{message.__name__}'


@dataclass(frozen=True, slots=True)
class FieldType:
    """The type of a field.

    Attributes:
        text: As the message says it.
        base: Without array and bounds: ``double``, ``string``, ``geometry_msgs/Pose``.
        is_list: Whether there are several.
        least: Least number of elements.
        most: Greatest number of elements; None for any.
        longest: Greatest number of characters; None for any.
    """

    text: str
    base: str
    is_list: bool = False
    least: int = 0
    most: int | None = None
    longest: int | None = None

    @classmethod
    def of(cls, text: str) -> FieldType:
        """Read a type as messages say it."""
        base, is_list, least, most = text, False, 0, None
        if match := _SEQUENCE.fullmatch(text):
            base, is_list = match.group(1), True
            most = int(match.group(2)) if match.group(2) else None
        elif match := _ARRAY.fullmatch(text):
            base, is_list = match.group(1), True
            least = most = int(match.group(2))
        longest = None
        if match := _STRING.fullmatch(base):
            longest = int(match.group(1)) if match.group(1) else None
            base = 'string'
        return cls(text, base, is_list, least, most, longest)

    @property
    def element(self) -> FieldType:
        """The type of one of its elements."""
        return FieldType(self.base, self.base, longest=self.longest)

    @property
    def is_message(self) -> bool:
        """Whether it has fields itself."""
        return '/' in self.base

    @property
    def is_float(self) -> bool:
        """Whether it is a number with a fraction."""
        return self.base in _FLOATS

    @property
    def integers(self) -> tuple[int, int] | None:
        """The least and the greatest integer that it holds; None where it is none."""
        if self.base not in _BITS:
            return None
        sign, bits = _BITS[self.base]
        return (0, 2**bits - 1) if sign == 'u' else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@dataclass(frozen=True, slots=True)
class FieldPath:
    """A field of a message, perhaps of one within it.

    Attributes:
        names: The fields to go through.
        owner: The class of the message that has the last of them.
        type: What that field is.
    """

    names: tuple[str, ...]
    owner: Any
    type: FieldType

    @classmethod
    def of(cls, text: str, message: Any) -> FieldPath:
        """Find a field by its dotted path.

        Raises:
            ConfigurationError: The message has none.
        """
        names = tuple(text.split('.'))
        owner, field = message, FieldType('', '')
        for index, name in enumerate(names):
            require_field(owner, name)
            field = FieldType.of(fields_of(owner)[name])
            if index + 1 < len(names):
                if not field.is_message or field.is_list:
                    raise ConfigurationError(
                        f'{name!r} is {field.text}: expected it to have fields'
                    )
                owner = find_message(field.base)
        return cls(names, owner, field)

    def read(self, message: Any) -> Any:
        """Return its value."""
        for name in self.names:
            message = getattr(message, name)
        return message

    def show(self, value: Any) -> str:
        """Return its value for people, with the name of the constant that it equals."""
        return f'{".".join(self.names)} {shown(self.owner, value)}'


def require_field(message: Any, name: str) -> None:
    """Raise ``ConfigurationError`` where a message class has no such field."""
    fields = fields_of(message)
    if name not in fields:
        there = ', '.join(f'{field} ({kind})' for field, kind in fields.items()) or 'none'
        raise ConfigurationError(
            f'{type_name_of(message)} has no field {name!r}: its fields are {there}'
        )


def shown(owner: Any, value: Any) -> str:
    """Return a field's value, with the name of the constant of its message that it equals."""
    if isinstance(value, int) and not isinstance(value, bool):
        for name in dir(type(owner)):
            constant = getattr(owner, name, None) if name[:1].isupper() else None
            if type(constant) is int and constant == value:
                return f'{value} ({name})'
    return repr(value)


def describe(message: Any) -> str:
    """Return what a result or a response says of itself: its numbers, words and flags.

    Empty where it says nothing: zeros and empty texts are left out, and so are messages within it
    unless they hold a constant, as error codes do.
    """
    parts: list[str] = []
    for name, text in fields_of(type(message)).items():
        field, value = FieldType.of(text), getattr(message, name)
        if field.is_list:
            continue
        if field.is_message:
            inner = find_message(field.base)
            said = {
                key: shown(inner, getattr(value, key))
                for key, kind in fields_of(inner).items()
                if '/' not in kind and getattr(value, key)
            }
            if any(text.endswith(')') for text in said.values()):
                parts.extend(f'{name}.{key} {text}' for key, text in said.items())
        elif value or field.base == 'boolean':
            parts.append(f'{name} {shown(type(message), value)}')
    return ', '.join(parts)
