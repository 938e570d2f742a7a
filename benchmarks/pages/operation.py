"""The tables of what it costs to watch a fleet, and to plan for one on Ray."""

from __future__ import annotations

from typing import Any

from benchmarks.pages.writing import read, table


def context() -> dict[str, Any]:
    """Return what the page's template names."""
    return {'watched': watched, 'on_ray': on_ray, 'ray_events': ray_events}


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


def on_ray() -> str:
    """Return how the same tasks were served in each way."""
    rows = (
        (
            one['way'],
            str(one['tasks']),
            str(one['failed']),
            f'{one["utility"]:.3f}',
            f'{one["urgent_p50_s"]:.3f}',
            f'{one["urgent_p99_s"]:.3f}',
        )
        for one in read('cluster').figures['served']
    )
    return table(('way', 'tasks', 'failed', 'utility', 'urgent p50 (s)', 'urgent p99 (s)'), rows)


def ray_events() -> str:
    """Return how long an event takes from the engine to the planner."""
    found = read('cluster').figures['events']
    rows = (
        (name, f'{found[where]["p50_ms"]:.2f}', f'{found[where]["p99_ms"]:.2f}')
        for name, where in (('a child process', 'process'), ('a replica on Ray', 'ray'))
    )
    return table(('from', 'p50 (ms)', 'p99 (ms)'), rows)
