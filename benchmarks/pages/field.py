"""Tables on our way to serve beside the rankings of other systems, and on whose KV is kept."""

from __future__ import annotations

from typing import Any

from benchmarks.field import LENT_OURS, OURS
from benchmarks.pages.writing import read, table

FILES = ('field_wid1', 'field_wid2', 'field_wid3', 'field_others')
"""Which files have the workloads."""


def context() -> dict[str, Any]:
    """Return what the page's template names."""
    return {
        'files': {name: read(name) for name in FILES},
        'tables': {name: served(name) for name in FILES},
        'lent': lent(),
        'settings': settings(),
        'kept': kept(),
        'kept_made': read('kept').figures,
    }


def served(name: str) -> str:
    """Return how every policy fared at its best setting in one file, by load."""
    rows = [row for row in read(name).figures['rows'] if LENT_OURS not in row['policy']]
    lines = (
        (
            f'{one["load"]:g}',
            f'**{one["policy"]}**' if one['policy'] == OURS else one['policy'],
            f'{one["utility"]:.3f}',
            '' if one['policy'] == OURS else f'{one["behind"]:.3f} ± {one["behind_error"]:.3f}',
            f'{one["in_time_per_s"]:.3f}',
            '' if one['policy'] == OURS else f'{one["fewer"]:.3f} ± {one["fewer_error"]:.3f}',
            f'{one["share"]:.2f}',
            f'{one["p99_s"]:.2f}',
        )
        for one in rows
    )
    head = (
        'load', 'policy', 'mean utility', 'behind ours', 'in time per s', 'behind ours',
        'share of the bound', 'p99 (s)',
    )  # fmt: skip
    return table(head, lines)


def lent() -> str:
    """Return by how much each ranking is behind ours under our admission."""
    cells: dict[str, dict[tuple[str, float], dict[str, Any]]] = {}
    for row in _rows():
        if LENT_OURS in row['policy']:
            name = row['policy'].removesuffix(LENT_OURS)
            cells.setdefault(name, {})[row['workload'], row['load']] = row
    places = list(dict.fromkeys(place for found in cells.values() for place in found))
    lines = (
        (
            f'{workload}, {load:g}',
            *(
                f'{1000 * found[workload, load]["behind"]:.0f} ± '
                f'{1000 * found[workload, load]["behind_error"]:.0f}'
                for found in cells.values()
            ),
        )
        for workload, load in places
    )
    return table(('workload, load', *cells), lines)


def settings() -> str:
    """Return the settings at which the policies stand."""
    cells: dict[str, dict[tuple[str, float], str]] = {}
    for row in _rows():
        if row['policy'] != OURS and LENT_OURS not in row['policy']:
            place = row['workload'], row['load']
            cells.setdefault(row['policy'], {})[place] = row['setting'].replace(' ', '\N{NBSP}')
    places = list(dict.fromkeys(place for found in cells.values() for place in found))
    lines = (
        (f'{workload}, {load:g}', *(found[workload, load] for found in cells.values()))
        for workload, load in places
    )
    return table(('workload, load', *cells), lines)


def kept() -> str:
    """Return what each choice of whose KV to drop came to."""
    lines = (
        (
            f'{row["workload"]}, {row["load"]:g}',
            'all' if row['room'] is None else f'{row["room"]:,}',
            f'**{row["choice"]}**' if row['choice'] == OURS else row['choice'],
            f'{row["utility"]:.3f}',
            '' if row['choice'] == OURS else f'{row["behind"]:.3f} ± {row["behind_error"]:.3f}',
            f'{row["later_s"]:.3f}',
            '' if row['choice'] == OURS else f'{row["longer_s"]:.3f} ± {row["longer_error_s"]:.3f}',
            f'{row["urgent_p99_s"]:.2f}',
            f'{row["drops"]:.2f}',
            f'{100 * row["prompts"]:.0f} %',
        )
        for row in read('kept').figures['rows']
    )
    head = (
        'workload, load', 'room (tokens)', 'choice', 'mean utility', 'behind ours',
        'later wait (s)', 'longer than ours (s)', 'urgent p99 (s)', 'drops per task', 'as prompts',
    )  # fmt: skip
    return table(head, lines)


def _rows() -> list[dict[str, Any]]:
    return [row for name in FILES for row in read(name).figures['rows']]
