"""Options: fields of frozen dataclasses that say what they do and which values they allow.

A room's configuration is a dataclass of such fields. The dataclass checks its values itself with
:func:`check_options`, and a node declares its parameters from the same fields, so that a name, a
default and a range are written in one place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from dataclasses import Field

_OPTION = 'option'


@dataclass(frozen=True, slots=True)
class Option:
    """What is said of one option, apart from its name, type and default.

    Attributes:
        description: What it does, with its unit.
        minimum: Least number, None for no bound.
        maximum: Greatest number, None for no bound.
        choices: The allowed words, empty for any text.
        off: The value that stands for None where None cannot be written, as in ROS parameters;
            None for an option that has no such state.
        live: Whether it may change while it is in use.
    """

    description: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    off: float | str | None = None
    live: bool = False

    @property
    def expected(self) -> str:
        """What a value must be, for messages and the documentation; empty for anything."""
        if self.choices:
            return 'one of ' + ', '.join(self.choices)
        if self.minimum is not None and self.maximum is not None:
            return f'{self.minimum} to {self.maximum}'
        return '' if self.minimum is None else f'at least {self.minimum}'

    def allows(self, value: object) -> bool:
        """Return whether a value of the right type is one of the choices and in range."""
        if isinstance(value, int | float):
            return (
                math.isfinite(value)
                and (self.minimum is None or value >= self.minimum)
                and (self.maximum is None or value <= self.maximum)
            )
        return not self.choices or value in self.choices


def option(
    default: Any,
    description: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    off: float | str | None = None,
    live: bool = False,
) -> Any:
    """Return the dataclass field of one option; the arguments are those of :class:`Option`."""
    declared = Option(description, minimum, maximum, choices, off, live)
    return field(default=default, metadata={_OPTION: declared})


@dataclass(frozen=True, slots=True)
class Group:
    """A field whose own fields are options; ``prefix`` goes before their names in a flat list."""

    record: type[Any]
    prefix: str = ''


def group(default: Any, *, prefix: str = '') -> Any:
    """Return the dataclass field of a group; ``default`` is its type where it has no defaults."""
    if isinstance(default, type):
        return field(metadata={_OPTION: Group(default, prefix)})
    return field(default=default, metadata={_OPTION: Group(type(default), prefix)})


@dataclass(frozen=True, slots=True)
class Variants:
    """A field that is one of several dataclasses of options, chosen by name."""

    records: Mapping[str, type[Any]]
    default: str
    description: str


def one_of(records: Mapping[str, type[Any]], default: str, description: str) -> Any:
    """Return the dataclass field of a variant; the arguments are those of :class:`Variants`."""
    variants = Variants(records, default, description)
    return field(default_factory=records[default], metadata={_OPTION: variants})


def option_of(item: Field[Any]) -> Option | Group | Variants | None:
    """Return what a dataclass field is as an option; None for a field that is none."""
    found: Option | Group | Variants | None = item.metadata.get(_OPTION)
    return found


def check_options(record: Any) -> None:
    """Check that each option of a dataclass is one of its choices and in range.

    Raises:
        ConfigurationError: One is not.
    """
    for item in fields(record):
        declared = option_of(item)
        if not isinstance(declared, Option):
            continue
        value = getattr(record, item.name)
        if value is None and declared.off is not None:
            continue
        if not declared.allows(value):
            raise ConfigurationError(f'{item.name} {value!r}: expected {declared.expected}')
