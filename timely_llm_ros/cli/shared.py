"""What several commands have in common: options, and the bar that shows how far they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.cli.fields import add_fields
from timely_llm_ros.command_line import seconds

if TYPE_CHECKING:
    import argparse

    from rich.console import Console
    from rich.progress import Progress


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
    parser.add_argument('--namespace', default='', help='of the planner, for example /fleet')
    parser.add_argument(
        '--wait', type=seconds, default=10.0, metavar='SECONDS', help='for a planner (default: 10)'
    )


def progress_bar(screen: Console) -> Progress:
    """Return a bar that counts, says how long the rest will take, and is gone at the end."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as RemainingColumn

    columns = (
        TextColumn('{task.description}'), BarColumn(), MofNCompleteColumn(), RemainingColumn(),
    )  # fmt: skip
    return Progress(*columns, console=screen, transient=True)
