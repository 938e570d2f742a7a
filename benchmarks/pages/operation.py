"""The table of what it costs to watch a fleet."""

from __future__ import annotations

from typing import Any

from benchmarks.pages.writing import read, table


def context() -> dict[str, Any]:
    """Return what the page's template names."""
    return {'watched': watched}


def watched() -> str:
    """Return what each program's metrics take."""
    found = read('metrics').figures
    rows = (
        (
            name,
            str(found[name]['samples']),
            f'{found[name]["make_ms"]:.2f}',
            f'{found[name]["scrape_ms"]:.2f}',
            f'{100 * found[name]["share_of_a_core"]:.2f} %',
        )
        for name in ('planner', 'executor')
    )
    return table(('program', 'figures', 'made in (ms)', 'told in (ms)', 'share of a core'), rows)
