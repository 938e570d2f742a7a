"""Reads a driver's options from plain values, as a YAML file has them."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, replace
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Record(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


Options = TypeVar('Options', bound=_Record)

_WORDS = {bool: 'true or false', int: 'a whole number', float: 'a number', str: 'a text'}


def read_record(
    kind: type[Options], values: Mapping[str, object], base: Options | None = None
) -> Options:
    """Return a record of options from plain values.

    Args:
        kind: The record: a dataclass whose fields are bool, int, float, str, a union of these, or a
            tuple of so many of them.
        values: The fields that are given, by name.
        base: Has the values of the others; their defaults where None.

    Raises:
        ConfigurationError: A name is unknown, a value does not fit its field, or one is missing.
    """
    known: dict[str, Field[Any]] = {one.name: one for one in fields(kind)}
    types = get_type_hints(kind)
    given = {}
    for name, value in values.items():
        if name not in known:
            raise ConfigurationError(f'option {name!r}: expected one of {", ".join(known)}')
        given[name] = _read(f'{name} {value!r}', types[name], value)
    if base is not None:
        return replace(base, **given)
    for name, one in known.items():
        if name not in given and one.default is MISSING:
            raise ConfigurationError(
                f'option {name!r}: is missing: expected {_expected(types[name])}'
            )
    return kind(**given)


def _read(what: str, type_: object, value: object) -> object:
    if get_origin(type_) is tuple and isinstance(value, list | tuple):
        parts = get_args(type_)
        if len(value) == len(parts):
            return tuple(_read(what, *pair) for pair in zip(parts, value, strict=True))
    for one in get_args(type_) if isinstance(type_, UnionType) else (type_,):
        if type(value) is one:
            return value
        if one is float and type(value) is int:
            return float(value)
    raise ConfigurationError(f'{what}: expected {_expected(type_)}')


def _expected(type_: object) -> str:
    if get_origin(type_) is tuple:
        parts = get_args(type_)
        return f'{len(parts)} values, each {_expected(parts[0])}'
    if isinstance(type_, UnionType):
        return ' or '.join(map(_expected, get_args(type_)))
    return _WORDS[type_] if isinstance(type_, type) else str(type_)
