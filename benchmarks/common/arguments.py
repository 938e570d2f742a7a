"""The command line that all benchmarks have in common."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass


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
            help='where the figures go, in place of a file of benchmarks/results',
        )
    return parser


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
