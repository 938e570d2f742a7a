"""``timely-llm approve``: lists what waits for approval, approves it or refuses it."""

from __future__ import annotations

import getpass
from functools import partial
from typing import TYPE_CHECKING

from timely_llm_ros.cli.shared import add_wait, run_tool
from timely_llm_ros.command_line import add_namespace

if TYPE_CHECKING:
    import argparse

_EXAMPLES = """\
examples:
  timely-llm approve list
  timely-llm approve yes 3f2a1b9c:2
  timely-llm approve no 3f2a1b9c:2 --reason "people below"
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = (
        "Decide on the segments that wait for somebody's approval, because a planner's parameter "
        'approval_above says so. The exit code is 0 if that was done, 1 if not, 3 if no planner '
        'answers.'
    )
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(metavar='ACTION', title='actions', required=True)
    listing = actions.add_parser('list', help='say what waits, and for how long')
    approving = actions.add_parser('yes', help='approve a segment: it goes to its robot')
    refusing = actions.add_parser('no', help='refuse a segment: its task ends')
    for one in (approving, refusing):
        one.add_argument('key', metavar='KEY', help='of the segment, as the list has it')
        one.add_argument(
            '--who', default=_user(), help='decides, for the audit log (default: you, %(default)s)'
        )
    refusing.add_argument('--reason', default='', help='what the client is told')
    for one, what in ((listing, 'list'), (approving, 'approve'), (refusing, 'refuse')):
        add_namespace(one)
        add_wait(one, 3.0, 'a planner')
        one.set_defaults(run=partial(_run, what))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A user without a name, as containers have them.
        return ''


def _run(what: str, options: argparse.Namespace) -> int:
    arguments = [what] if what == 'list' else [what, options.key, '--who', options.who]
    if what == 'refuse':
        arguments += ['--reason', options.reason]
    return run_tool('approve', arguments, options)
