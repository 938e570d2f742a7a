"""One program per claim; each prints a table and writes ``results/NAME.json``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

_OURS = frozenset({'benchmarks', 'lrtrace', 'timely_llm_ros'})


def _in_one_line(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Say how a program ended by what its user did, in place of a traceback."""
    if isinstance(error, KeyboardInterrupt):
        print('broken off', file=sys.stderr)
    elif isinstance(error, ModuleNotFoundError) and (
        error.name and error.name.partition('.')[0] not in _OURS
    ):
        print(
            f'error: the Python package {error.name} is not installed: expected what '
            '`make setup-dev` installs',
            file=sys.stderr,
        )
    else:
        sys.__excepthook__(kind, error, trace)


if sys.argv[:1] == ['-m']:
    # Python looks for a program of this package, whose own imports may fail too. Who imports a
    # benchmark from elsewhere keeps their own way to end.
    sys.excepthook = _in_one_line
