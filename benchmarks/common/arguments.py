"""The command line that all benchmarks have in common."""

from __future__ import annotations

import argparse
import math
import os
from dataclasses import dataclass
from pathlib import Path


def arguments(description: str | None, *, json: bool = True) -> argparse.ArgumentParser:
    """Return a parser that shows a program's docstring as it stands.

    Args:
        description: The docstring.
        json: Whether ``--json`` says where the figures go.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if json:
        parser.add_argument(
            '--json',
            metavar='FILE',
            type=new_file,
            help='where the figures go, in place of a file of benchmarks/results',
        )
    return parser


def new_file(text: str) -> str:
    """The type of an argument that is a file to write.

    Raises:
        ArgumentTypeError: A program could measure for long and then not write it.
    """
    if Path(text).is_dir():
        raise argparse.ArgumentTypeError(f'{text!r}: is a folder: expected a file')
    new_folder(str(Path(text).parent))
    return text


def new_folder(text: str) -> Path:
    """The type of an argument that is a folder to write to; it is made where it is needed.

    Raises:
        ArgumentTypeError: A program could measure for long and then not write to it.
    """
    path = Path(text)
    there = next(one for one in (path, *path.absolute().parents) if os.path.lexists(one))
    if not there.is_dir():
        raise argparse.ArgumentTypeError(f'{str(there)!r}: is no folder: expected a folder')
    if not os.access(there, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(
            f'{str(there)!r}: cannot be written to: expected a folder where files can be made'
        )
    return path


@dataclass(frozen=True, slots=True)
class Number:
    """The type of an argument that is a number: it refuses what a program could not work with.

    Attributes:
        least: The least that it may be.
        most: The most that it may be.
        whole: Whether it has to be a whole number.
        above: Whether it has to be more than ``least``.
    """

    least: float
    most: float = math.inf
    whole: bool = True
    above: bool = False

    def __call__(self, text: str) -> float:
        """Return the number, an int where it is whole.

        Raises:
            ArgumentTypeError: It is none that is allowed; argparse names the argument.
        """
        try:
            value = int(text) if self.whole else float(text)
        except ValueError:
            value = math.nan
        enough = value > self.least if self.above else value >= self.least
        if not enough or value > self.most or math.isinf(value):
            raise argparse.ArgumentTypeError(f'{text!r}: expected {self}')
        return value

    def __str__(self) -> str:
        what = 'a whole number' if self.whole else 'a number'
        if self.most < math.inf:
            return f'{what} from {self.least:g} to {self.most:g}'
        return f'{what} {"above" if self.above else "of at least"} {self.least:g}'


COUNT = Number(1)
"""How many of something that there has to be."""

FROM_ZERO = Number(0)
"""A seed, or how many of something that may be left out."""

POSITIVE = Number(0, whole=False, above=True)
"""A time, a rate or a load."""
