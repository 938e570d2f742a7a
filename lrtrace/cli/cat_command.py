"""``lrtrace cat``: prints a trace's messages as JSON, one to a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from timely_llm_ros.command_line import require_range
from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Iterator

    from lrtrace.storage import Trace


def add_cat_command(commands: Any) -> None:
    """Add the command to the subparsers of ``lrtrace``."""
    parser = commands.add_parser(
        'cat',
        help='print messages as JSON lines',
        description='Print messages as JSON, one to a line, in the order of recording: topic, '
        'type, log_ns (since the epoch) and message. Numbers that are not finite become null.',
    )
    parser.add_argument('trace', help='a trace folder or an MCAP file')
    parser.add_argument('topic', nargs='*', help='only these topics (default: all)')
    parser.add_argument('-n', '--number', type=int, help='stop after so many messages')
    parser.set_defaults(run=_cat)


def lines(trace: Trace, topics: Collection[str] = ()) -> Iterator[str]:
    """Yield a trace's messages as lines of JSON; without ``topics`` those of all.

    Raises:
        TraceError: A topic is not in the trace, or a message does not fit its definition.
    """
    from lrtrace.storage import to_json

    if topics:
        known = trace.summary().types
        for topic in topics:
            if topic not in known:
                raise TraceError(
                    f'topic {topic!r}: expected one of {", ".join(sorted(known)) or "none at all"}'
                )
    for message in trace.messages(topics=topics or None):
        content = {
            'topic': message.topic,
            'type': message.message_type,
            'log_ns': message.log_ns,
            'message': to_json(message.value),
        }
        yield json.dumps(content, allow_nan=False, separators=(',', ':'))


def _cat(options: argparse.Namespace) -> int:
    import sys
    from itertools import islice

    from lrtrace.storage import Trace

    require_range(options, 'number', 0)
    trace = Trace(options.trace)
    for line in islice(lines(trace, options.topic), options.number):
        print(line)
    if trace.damage:
        print(f'warning: {trace.damage}', file=sys.stderr)
    return 0
