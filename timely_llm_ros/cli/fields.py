"""Options of the command line that are made from the fields of a dataclass of options."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.options import Option, option_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

R = TypeVar('R')


def add_fields(parser: argparse.ArgumentParser, record: type[Any], *names: str) -> None:
    """Add options for fields of a dataclass that :func:`~timely_llm_ros.options.option` made.

    An option is called as its field, without ``_s``.

    Args:
        parser: The command that has them.
        record: The dataclass; :func:`read_fields` makes one of what the user gave.
        names: Only these fields; none for all.
    """
    for name, declared, default in _options_of(record):
        if names and name not in names:
            continue
        kind: type[object] = type(declared.off if default is None else default)
        settings: dict[str, Any] = {'dest': name, 'default': default}
        if kind is bool:
            settings['action'] = 'store_true'
        elif kind is tuple:
            settings['nargs'] = '+'
        else:
            settings |= {'type': kind, 'choices': declared.choices or None}
        shown = ' '.join(default) if kind is tuple else default
        suffix = (
            f' (default: {shown})' if shown is not None and shown != '' and kind is not bool else ''
        )
        parser.add_argument(_flag(name), help=declared.description.rstrip('.') + suffix, **settings)


def read_fields(options: argparse.Namespace, record: Callable[..., R], **others: Any) -> R:
    """Return a dataclass of the options that :func:`add_fields` added for it, and of others.

    Raises:
        ConfigurationError: An option is out of range.
    """
    values: dict[str, Any] = {}
    for name, declared, _ in _options_of(record):
        if name not in options:
            continue
        value = values[name] = getattr(options, name)
        if value is not None and not declared.allows(value):
            raise ConfigurationError(f'{_flag(name)} {value}: expected {declared.expected}')
    return record(**values | others)


def _options_of(record: Any) -> Iterator[tuple[str, Option, Any]]:
    for item in fields(record):
        declared = option_of(item)
        if isinstance(declared, Option):
            yield item.name, declared, item.default


def _flag(name: str) -> str:
    return '--' + name.removesuffix('_s').replace('_', '-')
