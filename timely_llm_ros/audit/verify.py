"""Says whether an audit log is as it was written."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.audit.lines import MOST_BYTES, Link, read_line

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of a log.

    Attributes:
        lines: How many lines are as they were written, from the beginning.
        head: Hash of the last of them. Kept elsewhere, it says later whether lines are missing at
            the end.
        tampered: The number of the first line that is not, counted from 1, and why; empty if all
            are.
        torn_bytes: Of a last line that was torn off, by a machine that lost its power or a disk
            that was full; 0 if there is none.
    """

    lines: int
    head: str
    tampered: str = ''
    torn_bytes: int = 0


def verify_log(path: Path, *, expected_head: str = '') -> Verdict:
    """Read a log from its beginning, a line at a time.

    Args:
        path: The log.
        expected_head: A hash that a line must have: the last that was known to be there.

    Raises:
        OSError: It cannot be read.
    """
    link, torn, torn_at, found = Link(), b'', 0, expected_head in ('', Link().hash)
    with path.open('rb') as file:
        number = 0
        while line := file.readline(2 * MOST_BYTES):
            number += 1
            if torn_at and not _explains(line, torn, link):
                return Verdict(link.count, link.hash, f'line {torn_at}: {_WHOLE}')
            torn_at = 0
            if not line.endswith(b'\n'):
                if len(line) > MOST_BYTES:
                    return Verdict(link.count, link.hash, f'line {number}: {_WHOLE}')
                return _judged(Verdict(link.count, link.hash, torn_bytes=len(line)), found)
            try:
                record, following = read_line(line[:-1])
            except ValueError:
                torn, torn_at = line[:-1], number
                continue
            problem = _misplaced(record['line'], record['previous'], link)
            if problem:
                return Verdict(link.count, link.hash, f'line {number}: {problem}')
            link = following
            found = found or link.hash == expected_head
    if torn_at:
        return Verdict(link.count, link.hash, f'line {torn_at}: {_WHOLE}')
    return _judged(Verdict(link.count, link.hash), found)


_WHOLE = 'expected a line that is as it was written'


def _judged(verdict: Verdict, found: bool) -> Verdict:
    if found:
        return verdict
    return Verdict(
        verdict.lines, verdict.head, 'the end: expected a line with the hash that was given'
    )


def _misplaced(line: object, previous: object, link: Link) -> str:
    if line != link.count:
        return f'it says that it is number {line}: expected {link.count}'
    return '' if previous == link.hash else 'it follows another line than the one before it'


def _explains(line: bytes, torn: bytes, link: Link) -> bool:
    """Return whether a line says that what is before it was torn off."""
    try:
        record, _ = read_line(line.rstrip(b'\n'))
    except ValueError:
        return False
    return (
        record.get('what') == 'torn'
        and not _misplaced(record['line'], record['previous'], link)
        and (record['bytes'], record['sha256']) == (len(torn), hashlib.sha256(torn).hexdigest())
    )
