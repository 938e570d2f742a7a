"""The lines of an audit log: JSON objects, each of which ends with a hash of itself.

A line has ``previous``, the hash of the line before it, and ``line``, its number. So no line can be
changed, removed, put in or moved without all after it being written anew.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

BEGINNING = '0' * 64
"""What the first line has as the hash of the line before it."""

MOST_BYTES = 1 << 16
"""No line is longer than this."""

_END = re.compile(rb', "hash": "([0-9a-f]{64})"}')
_END_BYTES = len(', "hash": ""}') + 64


@dataclass(frozen=True, slots=True)
class Link:
    """What the next line has to say of a line.

    Attributes:
        count: How many lines there are with it.
        hash: Its hash.
    """

    count: int = 0
    hash: str = BEGINNING


def write_line(after: Link, record: Mapping[str, Any]) -> tuple[bytes, Link]:
    """Return a line with its line end that follows another, and what the next one has to say.

    Raises:
        ValueError: It is too long.
    """
    content = {'line': after.count, 'previous': after.hash, **record}
    body = json.dumps(content)[:-1].encode()
    digest = hashlib.sha256(body).hexdigest()
    line = body + f', "hash": "{digest}"}}\n'.encode()
    if len(line) > MOST_BYTES:
        raise ValueError(f'{len(line)} bytes: expected at most {MOST_BYTES}')
    return line, Link(after.count + 1, digest)


def read_line(line: bytes) -> tuple[dict[str, Any], Link]:
    """Return what a line without its line end says, and what the next one has to say of it.

    Raises:
        ValueError: It is no such line, or it was changed.
    """
    end = _END.fullmatch(line[-_END_BYTES:])
    if end is None or len(line) <= _END_BYTES:
        raise ValueError('expected a line that ends with its hash')
    body = line[:-_END_BYTES]
    digest = hashlib.sha256(body).hexdigest()
    if digest.encode() != end.group(1):
        raise ValueError('its hash is another: it was changed')
    record = json.loads(body + b'}')
    if not isinstance(record.get('line'), int) or not isinstance(record.get('previous'), str):
        raise ValueError('expected its number and the hash before it')  # noqa: TRY004
    return record, Link(record['line'] + 1, digest)
