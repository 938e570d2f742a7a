"""``lrtrace repair``: makes a whole trace of one that was cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


def add_repair_command(commands: Any) -> None:
    """Add the command to the subparsers of ``lrtrace``."""
    parser = commands.add_parser(
        'repair',
        help='make a trace whole that was cut off',
        description='Copy what is sound in a trace that was cut off, by a kill or a full disk, '
        'into a new one with an index and metadata. The original is kept.',
    )
    parser.add_argument('trace', help='a trace folder or an MCAP file')
    target = parser.add_mutually_exclusive_group()
    target.add_argument(
        '-o', '--output', help='folder of the new trace (default: <trace>_repaired beside it)'
    )
    target.add_argument(
        '--in-place',
        action='store_true',
        help='the new trace takes the place of the old one, which is kept as <trace>.damaged',
    )
    parser.set_defaults(run=_repair)


def _repair(options: argparse.Namespace) -> int:
    from lrtrace.storage import repair_trace

    done = repair_trace(options.trace, output=options.output, in_place=options.in_place)
    if not done.damage:
        print(f'{done.trace}: whole, {done.messages} messages; nothing was written')
        return 0
    print(f'was        {done.damage}')
    print(f'repaired   {done.trace}: {done.messages} messages')
    print(f'original   {done.original}')
    return 0
