"""Decoded messages as JSON."""

from __future__ import annotations

import json
import math
from array import array
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SLICE = 4096
"""So many numbers of an array are one piece."""


def to_json(value: Any) -> Any:
    """Return a decoded message as dictionaries, lists, numbers and texts.

    Numbers that are not finite become None and bytes become lists of numbers.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, bytes):
        return [*value]
    names = getattr(type(value), '__slots__', None)
    if names is not None:
        return {name: to_json(getattr(value, name)) for name in names}
    return [to_json(item) for item in value]


def json_pieces(value: Any) -> Iterator[str]:
    """Yield the JSON of what ``to_json`` returns in pieces that are small whatever it is."""
    names = getattr(type(value), '__slots__', None)
    if isinstance(value, (bytes, array)):
        yield '['
        for place in range(0, len(value), SLICE):
            piece = dumps(to_json(value[place : place + SLICE]))
            yield f'{"," if place else ""}{piece[1:-1]}'
        yield ']'
    elif isinstance(value, list):
        yield '['
        for index, item in enumerate(value):
            yield ',' if index else ''
            yield from json_pieces(item)
        yield ']'
    elif names is not None:
        yield '{'
        for index, name in enumerate(names):
            yield f'{"," if index else ""}"{name}":'
            yield from json_pieces(getattr(value, name))
        yield '}'
    else:
        yield dumps(to_json(value))


def dumps(value: Any) -> str:
    """Return JSON without spaces."""
    return json.dumps(value, allow_nan=False, separators=(',', ':'))
