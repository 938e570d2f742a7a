"""The tasks of a run as lines of text."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from lrtrace.run import CANCELED

if TYPE_CHECKING:
    from lrtrace.run import RecordedTask, Run

WIDEST = 48
"""A line shows this many characters of an instruction or error."""

WIDEST_REFUSAL = 300
"""A refusal is told with all its numbers."""


def task_lines(run: Run) -> list[str]:
    """Return a heading, and a line for each task and refusal. Times are in s."""
    rows: list[tuple[str, ...]] = [
        ('received', 'robot', 'kind', 'ended', 'response', 'waiting', 'utility', 'what')
    ]
    rows += [_row(task) for task in run.tasks]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        '  '.join(
            cell.rjust(width) if place in (0, 4, 5, 6) else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines += [
        f'refused    {_shown(one.robot)}: {_shown(one.why, WIDEST_REFUSAL)}' for one in run.refused
    ]
    return lines if run.tasks or run.refused else ['no task in this trace']


def _row(task: RecordedTask) -> tuple[str, ...]:
    done = task.ended_s is not None
    return (
        f'{task.received_s:.3f}',
        _shown(task.robot),
        _shown(task.kind),
        _ending(task),
        '-' if task.response_s is None else f'{task.response_s:.3f}{"!" if task.late else " "}',
        f'{task.waiting_s:.3f}' if done else '-',
        f'{task.utility:.3f}' if done else '-',
        _shown(task.error or task.instruction),
    )


def _ending(task: RecordedTask) -> str:
    if task.ended_s is None:
        return 'not ended'
    if task.succeeded:
        return 'succeeded'
    return 'canceled' if task.status == CANCELED else f'aborted ({task.error_code})'


def _shown(text: str, widest: int = WIDEST) -> str:
    """Return recorded text in one short line, without characters that control a terminal."""
    clean = ''.join(
        letter if unicodedata.category(letter)[0] != 'C' else ' ' for letter in text[: widest + 1]
    )
    return clean if len(clean) <= widest else f'{clean[: widest - 1]}…'
