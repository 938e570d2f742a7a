"""The command line that all benchmarks have in common."""

from __future__ import annotations

import argparse


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
