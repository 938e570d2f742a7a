"""``timely-llm logs``: JSON lines of what programs log."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from timely_llm_ros.cli.operation.log_lines import json_line

if TYPE_CHECKING:
    import argparse

_EXAMPLES = """\
examples:
  timely-llm logs < fleet_logs/20261124_080000/planner.log
  journalctl -fo cat -u timely-planner | timely-llm logs --program planner
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = (
        'Read what a program logs from standard input and write each line as a JSON object with '
        'time, severity, node, message and the ids of the tasks that it names.'
    )
    parser.epilog = _EXAMPLES
    parser.add_argument('--program', default='', help='what to call it in every line')
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    with suppress(KeyboardInterrupt, BrokenPipeError):
        for line in sys.stdin:
            print(json_line(line, options.program), flush=True)
    return 0
