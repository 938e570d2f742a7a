"""``timely-llm halt`` and ``release``: a fleet stops and stays so, with a planner or without."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from timely_llm_ros.cli.shared import add_wait, run_tool
from timely_llm_ros.command_line import add_namespace

if TYPE_CHECKING:
    import argparse

_EXAMPLES = """\
examples:
  timely-llm {what}                              every robot
  timely-llm {what} drone_1 drone_2
  timely-llm {what} --namespace /site_a --wait 10
"""


def add_halt_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = (
        'Bring robots to their safe action and have them take nothing more, from whichever '
        'planner, until they are released; an executor that is started anew remembers it. Every '
        'robot is named with what became of it. The exit code is 0 if all are safe, 1 if one was '
        'not reached or is not safe, 3 if no robot answers. No planner is needed.'
    )
    _add(parser, 'halt')


def add_release_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = (
        'Have robots that were halted take tasks again. The exit code is 0 if all were reached, '
        '1 if one was not, 3 if no robot answers.'
    )
    _add(parser, 'release')


def _add(parser: argparse.ArgumentParser, what: str) -> None:
    parser.epilog = _EXAMPLES.format(what=what)
    parser.add_argument('robots', nargs='*', metavar='ROBOT', help='their names; none for all')
    add_namespace(parser)
    add_wait(parser, 10.0, 'robots that have not answered')
    parser.set_defaults(run=partial(_run, what))


def _run(what: str, options: argparse.Namespace) -> int:
    return run_tool('fleet_halt', [what, *options.robots], options)
