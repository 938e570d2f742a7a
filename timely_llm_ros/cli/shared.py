"""What several commands have in common: options, and the bar that shows how far they are."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from timely_llm_ros.command_line import add_namespace, require_ros, seconds
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.options import Option, option_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console
    from rich.progress import Progress

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
            metavar = 'SECONDS' if name.endswith('_s') else 'N' if kind is int else None
            settings |= {'type': kind, 'choices': declared.choices or None, 'metavar': metavar}
        text = declared.description[0].lower() + declared.description[1:].rstrip('.')
        if kind is not bool and default not in (None, ''):
            text += f' (default: {" ".join(default) if kind is tuple else default})'
        parser.add_argument(_flag(name), help=text, **settings)


def read_fields(options: argparse.Namespace, record: Callable[..., R], **others: Any) -> R:
    """Return a dataclass of the options that :func:`add_fields` added for it, and of others.

    Raises:
        ConfigurationError: An option is out of range.
    """
    names = [name for name, _, _ in _options_of(record) if name in options]
    require_fields(options, record, *names)
    return record(**{name: getattr(options, name) for name in names} | others)


def require_fields(options: argparse.Namespace, record: Any, *names: str) -> None:
    """Refuse values that these fields of a dataclass cannot have.

    Raises:
        ConfigurationError: An option is out of range.
    """
    for name, declared, _ in _options_of(record):
        value = getattr(options, name) if name in names else None
        if value is not None and not declared.allows(value):
            raise ConfigurationError(f'{_flag(name)} {value}: expected {declared.expected}')


def _options_of(record: Any) -> Iterator[tuple[str, Option, Any]]:
    for item in fields(record):
        declared = option_of(item)
        if isinstance(declared, Option):
            yield item.name, declared, item.default


def _flag(name: str) -> str:
    return '--' + name.removesuffix('_s').replace('_', '-')


def add_force(parser: argparse.ArgumentParser) -> None:
    """Let the user replace a file."""
    parser.add_argument('--force', action='store_true', help='replace a file that exists')


def add_model(parser: argparse.ArgumentParser) -> None:
    """Let the user choose a model and where it runs."""
    from timely_llm_ros.engines import TorchConfig

    parser.add_argument(
        '--model', default='timely-planner', metavar='NAME_OR_PATH',
        help='a shipped model or a folder (default: %(default)s)',
    )  # fmt: skip
    add_fields(parser, TorchConfig, 'device', 'threads')


def add_planner(parser: argparse.ArgumentParser) -> None:
    """Let the user say which planner to speak to."""
    add_namespace(parser, 'planner')
    add_wait(parser, 10.0, 'a planner')


def add_wait(parser: argparse.ArgumentParser, usual_s: float, whom: str) -> None:
    """Let the user say how long to wait for somebody."""
    parser.add_argument(
        '--wait', type=seconds, default=usual_s, metavar='SECONDS',
        help=f'for {whom} (default: {usual_s:g})',
    )  # fmt: skip


def run_tool(name: str, arguments: Sequence[str], options: argparse.Namespace) -> int:
    """Run a program of ``nodes/tools``, as ROS stays out of this process; return its exit code."""
    require_ros()
    command = [sys.executable, '-m', f'timely_llm_ros.nodes.tools.{name}', *arguments]
    command += ['--wait', str(options.wait)]
    if options.namespace:
        command += ['--ros-args', '-r', f'__ns:={options.namespace}']
    return subprocess.run(command, check=False).returncode


def progress_bar(screen: Console) -> Progress:
    """Return a bar that counts, says how long the rest will take, and is gone at the end."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as RemainingColumn

    columns = (
        TextColumn('{task.description}'), BarColumn(), MofNCompleteColumn(), RemainingColumn(),
    )  # fmt: skip
    return Progress(*columns, console=screen, transient=True)
