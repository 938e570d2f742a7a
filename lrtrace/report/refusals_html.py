"""Which tasks were refused, by reason, and why each of them."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from lrtrace.report.text import e, kind_name, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lrtrace.run import RefusedTask, Run

MOST_REASONS = 8
"""A run's list of refusals names this many reasons."""

MOST_REFUSED = 500
"""So many refused tasks are told one by one."""

_NUMBER = re.compile(r"(?<![\w.'-])-?\d+(?:\.\d+)?(?![\w'])")
"""A number that stands by itself, not one in a name."""


def refusals(runs: Sequence[Run]) -> str:
    """Return the refusals of each run; they are answers, as when no time budget can be met."""
    return ''.join(_of_run(run) for run in runs if run.refused)


def by_reason(refused: Sequence[RefusedTask]) -> list[tuple[int, str]]:
    """Return how many tasks were refused for what, the most frequent reason first.

    Texts that differ only in their numbers are one reason: it has the least and the greatest.
    """
    groups: dict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for task in refused:
        groups[tuple(_NUMBER.split(task.why))].append(_NUMBER.findall(task.why))
    found = [(len(numbers), _with_ranges(parts, numbers)) for parts, numbers in groups.items()]
    return sorted(found, key=lambda reason: -reason[0])


def _with_ranges(parts: Sequence[str], numbers: list[list[str]]) -> str:
    told = [parts[0]]
    for column, part in zip(zip(*numbers, strict=True), parts[1:], strict=True):
        least, most = min(column, key=float), max(column, key=float)
        told += [least if least == most else f'{least} to {most}', part]
    return ''.join(told)


def _of_run(run: Run) -> str:
    count = len(run.refused)
    what = 'task was refused' if count == 1 else 'tasks were refused'
    found = by_reason(run.refused)
    rows = ''.join(
        f'<li>{number} {"time" if number == 1 else "times"}: {e(why)}</li>'
        for number, why in found[:MOST_REASONS]
    )
    more = len(found) - MOST_REASONS
    rows += f'<li>{more} other reasons</li>' if more > 0 else ''
    each = ''.join(map(_row, run.refused[:MOST_REFUSED]))
    rest = count - MOST_REFUSED
    note = f'<p class="note">and {rest} more</p>' if rest > 0 else ''
    return (
        f'<details class="answers"><summary>{e(run.label)}: {count} {what} at once</summary>'
        f'<ul>{rows}</ul><details><summary>Why was each of them refused?</summary>'
        '<div class="scroll tall"><table><thead><tr><th>refused</th><th>robot</th><th>kind</th>'
        f'<th>instruction</th><th>why</th></tr></thead><tbody>{each}</tbody></table></div>{note}'
        '</details></details>'
    )


def _row(task: RefusedTask) -> str:
    cells = seconds(task.at_s), task.robot, kind_name(task.kind), task.instruction, _sentence(task)
    return f'<tr>{"".join(f"<td>{e(cell)}</td>" for cell in cells)}</tr>'


def _sentence(task: RefusedTask) -> str:
    return f'Refused because {task.why}.' if task.why else 'Refused; the trace does not say why.'
