"""``lrtrace cat``: prints a trace's messages as JSON, one to a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from timely_llm_ros.command_line import require_range
from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Iterator

    from lrtrace.storage import Trace, TraceMessage

SHORT_BYTES = 1 << 16
"""The JSON of a longer message is printed in pieces, since it takes much memory."""


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


def _pieces(message: TraceMessage) -> Iterator[str]:
    from lrtrace.storage import json_pieces, to_json

    about = {'topic': message.topic, 'type': message.message_type, 'log_ns': message.log_ns}
    if len(message.data) <= SHORT_BYTES:
        yield json.dumps(about | {'message': to_json(message.value)}, separators=(',', ':')) + '\n'
        return
    yield json.dumps(about, separators=(',', ':'))[:-1] + ',"message":'
    yield from json_pieces(message.value)
    yield '}\n'


def _require_topics(trace: Trace, topics: Collection[str]) -> None:
    known = {channel.topic for _, channel in trace.topics()} if topics else ()
    for topic in topics:
        if topic not in known:
            raise TraceError(
                f'topic {topic!r}: expected one of {", ".join(sorted(known)) or "none at all"}'
            )


def _cat(options: argparse.Namespace) -> int:
    import sys
    from itertools import islice

    from lrtrace.storage import Trace

    require_range(options, 'number', 0)
    trace = Trace(options.trace)
    _require_topics(trace, options.topic)
    for message in islice(trace.messages(topics=options.topic or None), options.number):
        sys.stdout.writelines(_pieces(message))
    if trace.damage:
        print(f'warning: {trace.damage}', file=sys.stderr)
    return 0
