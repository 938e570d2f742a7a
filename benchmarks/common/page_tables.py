"""What the pages of results are made of: tables, and where their numbers come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return a table's lines."""
    lines = ['| ' + ' | '.join(head) + ' |', '|' + '---|' * len(head)]
    return [*lines, *('| ' + ' | '.join(map(str, row)) + ' |' for row in rows), '']


def measured(content: dict[str, Any], wall_s: float | None) -> str:
    """Return which command measured it, and when and where."""
    machine = content['machine']
    took = '' if wall_s is None else f', {wall_s:.0f} s in all'
    return (
        f'`{content["command"]}`, {content["date"][:10]}, {machine["cores"]}-core '
        f'{machine["cpu"]}{took}; `benchmarks/results/{content["name"]}.json`.'
    )


def verdicts(content: dict[str, Any]) -> list[str]:
    """Return the table of targets."""
    return table(
        ('target', 'measured', ''),
        (
            (f'{it["name"]}: {it["target"]}', f'{it["value"]:.3g}', 'met' if it['ok'] else 'missed')
            for it in content['targets']
        ),
    )
