"""Markdown of the pages: tables, and paragraphs of even lines."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.pages.writing.recorded import Verdict

WIDTH = 120
KEPT = ('|', '!', '#', '- ', '<!--', '```')
"""What a block begins with that is not filled."""


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return a table.

    Raises:
        ValueError: A row has another number of cells than the head.
    """
    lines = [_line(head), '|' + '---|' * len(head)]
    for row in rows:
        if len(row) != len(head):
            raise ValueError(f'row {row!r}: expected {len(head)} cells, as many as the head has')
        lines.append(_line(row))
    return '\n'.join(lines)


def targets(verdicts: Iterable[Verdict]) -> str:
    """Return the table of what should have come out."""
    return table(
        ('target', 'wanted', 'measured', ''),
        (
            (one.name, one.target, f'{one.value:.4g}', 'met' if one.ok else '**missed**')
            for one in verdicts
        ),
    )


def percent(value: float) -> str:
    """Return a share with its sign, in percent."""
    return f'{100 * value:+.1f} %'


def flow(text: str) -> str:
    """Fill the lines of paragraphs; tables, lists, pictures and headings stay as they are."""
    blocks = (block.strip('\n') for block in text.split('\n\n'))
    return '\n\n'.join(
        block
        if block.startswith(KEPT)
        else textwrap.fill(
            ' '.join(block.split()), WIDTH, break_long_words=False, break_on_hyphens=False
        )
        for block in blocks
        if block
    )


def _line(cells: Sequence[object]) -> str:
    return '| ' + ' | '.join(map(str, cells)) + ' |'
