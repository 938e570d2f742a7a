"""Tables on our way to serve beside the rankings of other systems, and on whose KV is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.field import LENT_OURS, OURS
from benchmarks.pages.writing import read, table

if TYPE_CHECKING:
    from collections.abc import Iterable

FILES = {
    'field_wid1': 'WID1',
    'field_wid2': 'WID2',
    'field_wid3': 'WID3',
    'field_others': 'Plans of others',
    'field_others_long': 'Plans of others, longer draws',
}
"""Which files have the workloads, and what the page calls these."""


def context() -> dict[str, Any]:
    """Return what the page's template names."""
    return {
        'files': {title: read(name) for name, title in FILES.items()},
        'tables': {title: served(name) for name, title in FILES.items()},
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
    return _by_policy(
        (
            f'{title}, {row["load"]:g}',
            row['policy'].removesuffix(LENT_OURS),
            f'{1000 * row["behind"]:.0f} ± {1000 * row["behind_error"]:.0f}',
        )
        for title, row in _rows()
        if LENT_OURS in row['policy']
    )


def settings() -> str:
    """Return the settings at which the policies stand."""
    return _by_policy(
        (
            f'{title}, {row["load"]:g}',
            row['policy'],
            row['setting'].replace(' ', '\N{NBSP}'),
        )
        for title, row in _rows()
        if row['policy'] != OURS and LENT_OURS not in row['policy']
    )


def _by_policy(cells: Iterable[tuple[str, str, str]]) -> str:
    """Return a table of what is said at each place of each policy; empty where it was not served.

    ``cells`` are places, policies and what is said.
    """
    lines: dict[str, dict[str, str]] = {}
    policies: dict[str, None] = {}
    for place, policy, text in cells:
        policies[policy] = None
        lines.setdefault(place, {})[policy] = text
    return table(
        ('workload, load', *policies),
        ((place, *(found.get(name, '') for name in policies)) for place, found in lines.items()),
    )


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


def _rows() -> list[tuple[str, dict[str, Any]]]:
    return [(title, row) for name, title in FILES.items() for row in read(name).figures['rows']]
