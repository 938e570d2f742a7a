"""Small records that travel between processes often."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import TypeVar

T = TypeVar('T')


def pickled_as_call(cls: type[T]) -> type[T]:
    """Pickle a dataclass of two or more fields as a call of itself with all its fields.

    A frozen dataclass with slots otherwise goes through ``dataclasses.fields`` for every record,
    both ways: several times the time, in the middle of a generation.

    Raises:
        TypeError: It has fewer fields, or one that its constructor does not take.
    """
    named = fields(cls)  # type: ignore[arg-type]
    if len(named) < 2 or not all(one.init for one in named):
        raise TypeError(f'{cls.__name__}: expected two or more fields, all for its constructor')
    values = attrgetter(*(one.name for one in named))

    def reduce(record: T) -> tuple[type[T], tuple[object, ...]]:
        return cls, values(record)

    cls.__reduce__ = reduce  # type: ignore[assignment,method-assign]
    return cls
