"""``timely-llm audit``: says whether an audit log is as it was written."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from timely_llm_ros.audit import verify_log

_EXAMPLES = """\
examples:
  timely-llm audit verify audit.jsonl
  timely-llm audit verify audit.jsonl --head 4f0c...
"""

EXIT_TORN = 4
"""Exit code where nothing was changed, but the last line was torn off."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = 'Check the log that a planner writes with its parameter audit_file.'
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(metavar='ACTION', title='actions', required=True)
    verify = actions.add_parser(
        'verify',
        help='say whether a log is as it was written',
        description='Say whether a line of a log was changed, removed, put in or moved. The exit '
        'code is 0 if none was, 1 if one was, 3 if the file cannot be read, and '
        f'{EXIT_TORN} if only the last line was torn off, by a loss of power or a full disk.',
    )
    verify.add_argument('file', type=Path, help='the log')
    verify.add_argument(
        '--head',
        type=_hash,
        default='',
        metavar='HASH',
        help='a hash that an earlier verify printed: it must still be there',
    )
    verify.set_defaults(run=_verify)


def _hash(text: str) -> str:
    """Read a hash. What is none would be missing in every log, as if it had been changed."""
    if text and not re.fullmatch(r'[0-9a-f]{64}', text):
        raise argparse.ArgumentTypeError(
            f'{text[:80]!r}: expected a hash as verify prints it, 64 digits 0-9 and a-f'
        )
    return text


def _verify(options: argparse.Namespace) -> int:
    try:
        verdict = verify_log(options.file, expected_head=options.head)
    except OSError as err:
        print(f'error: {options.file}: {err.strerror}', file=sys.stderr)
        return 3
    if verdict.tampered:
        print(f'{options.file}: TAMPERED, {verdict.tampered}; {verdict.lines} lines before it hold')
        return 1
    print(f'{options.file}: {verdict.lines} lines, each as it was written; head {verdict.head}')
    if verdict.torn_bytes:
        print(f'a last line was torn off ({verdict.torn_bytes} bytes of it are there)')
        return EXIT_TORN
    return 0
