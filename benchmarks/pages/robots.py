"""Tables on faults of robots, models of their skills' durations, and scenes."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Any

from benchmarks.pages.writing import read, table
from lrtrace.statistics import percentile

ATTACKS = ('chaos_1', 'chaos_2', 'chaos_3')
"""The files of results with attacks."""


def context() -> dict[str, Any]:
    """Return what the page's template names."""
    return {
        'faults': faults(),
        'deaths': deaths(),
        'server_deaths': server_deaths(),
        'fleet_stop': fleet_stop(),
        'window': window(),
        'growth': growth(),
        'attacks': attacks(),
        'refusals': refusals(),
        'durations': durations(),
        'scene': scene(),
        'world': world(),
        'worst_ms': worst_ms(),
        'programs': programs(),
        'planners': planners(),
        'many_robots': many_robots(),
    }


def programs() -> str:
    """Return what fleets cost by how many programs their executors are."""
    return table(
        (
            'robots', 'executors', 'all up', 'idle planner', 'planner', 'executors',
            'bare action p50 / p99 (ms)', 'segment p50 / p99 (ms)',
        ),
        (
            (
                row['robots'],
                row['executor programs'],
                f'{row["up (s)"]:.1f} s',
                f'{100 * row["planner, idle (cores)"]:.1f} % of a core',
                f'{row["planner (MB)"]:.0f} MB',
                f'{row["executors (MB)"]:.0f} MB',
                *(
                    ' / '.join(f'{1000 * percentile(times_s, part):.2f}' for part in (0.5, 0.99))
                    for times_s in row['latencies (s)'].values()
                ),
            )
            for row in read('ros').figures.values()
        ),
    )  # fmt: skip


def planners() -> str:
    """Return what robots and clients noticed of each planner's deaths, by its share."""
    kills = read('planners').figures['kills']
    rows = []
    for share in sorted({kill['share'] for kill in kills}):
        own = [kill for kill in kills if kill['share'] == share]
        safe, restarted, served = (
            [kill[what] for kill in own]
            for what in ('safe (s)', 'restarted (s)', 'served after the restart (s)')
        )
        rows.append(
            (
                share.replace('_', ' '),
                len(own),
                f'{1000 * max(safe):.0f} ms',
                f'{median(restarted):.2f} s',
                f'{median(served):.2f} s',
                f'{max(served):.2f} s',
            )
        )
    columns = ('planner of', 'kills', 'safe, worst', 'restarted, median', 'served, median', 'worst')
    return table(columns, rows)


def many_robots() -> str:
    """Return what it takes until robots are up, and what they cost."""
    found = read('fleet').figures['fleets']
    return table(
        ('', 'robots', 'all up', 'idle planner', 'planner', 'executors'),
        (
            (
                title,
                row['robots'],
                row['problem'] if row['up (s)'] is None else f'{row["up (s)"]:.1f} s',
                *(
                    (
                        f'{100 * row["planner, idle (cores)"]:.1f} % of a core',
                        f'{row["planner (MB)"]:.0f} MB',
                        f'{row["executors (MB)"]:.0f} MB',
                    )
                    if 'planner (MB)' in row
                    else ('', '', '')
                ),
            )
            for title, row in found.items()
        ),
    )


def worst_ms() -> float:
    """Return the longest time from a fault to a robot that is safe."""
    return float(1000 * max(row['worst_s'] for row in read('safety').figures.values()))


def faults() -> str:
    """Return how long it takes until a robot is safe, by fault."""
    verdicts = read('safety').targets
    return table(
        ('fault', 'counted', 'median', 'worst', '500 ms'),
        (
            (
                fault,
                row['counted'],
                f'{1000 * row["median_s"]:.0f} ms',
                f'{1000 * row["worst_s"]:.0f} ms',
                'met' if verdict.ok else '**missed**',
            )
            for (fault, row), verdict in zip(read('safety').figures.items(), verdicts, strict=True)
        ),
    )


def deaths() -> str:
    """Return how long it takes until a robot is safe, by who died and what else ran."""
    rows = []
    for load, found in read('deaths').figures.items():
        for fault, row in found.items():
            if fault != 'false alarms':
                times_s = sorted(row['times_s'])
                median_ms, worst_ms = 1000 * times_s[len(times_s) // 2], 1000 * times_s[-1]
                rows.append((load, fault, f'{median_ms:.0f} ms', f'{worst_ms:.0f} ms'))
        quiet = found['false alarms']
        text = f'{quiet["alarms"]} false alarms in {quiet["minutes"]:g} min'
        rows.append((load, 'nobody', text, f'{quiet["tasks"]} tasks, {quiet["failed"]} failed'))
    return table(('beside', 'dies', 'median', 'worst'), rows)


def server_deaths() -> str:
    """Return how long robots with ROS actions take to be safe, by robot and who died."""
    found = read('server_deaths')
    return table(
        ('robot: dies', 'counted from', 'times', '500 ms'),
        (
            (
                case,
                row['counted'],
                ', '.join(f'{1000 * one:.0f} ms' for one in row['times_s']),
                'met' if verdict.ok else '**missed**',
            )
            for (case, row), verdict in zip(found.figures.items(), found.targets, strict=True)
        ),
    )


def fleet_stop() -> str:
    """Return how long it takes until a whole fleet is stopped, with and without a planner."""
    return table(
        ('', 'stopped', 'last robot safe', 'last robot named'),
        (
            (
                case,
                row['stopped'],
                f'{1000 * row["last safe (s)"]:.0f} ms',
                f'{1000 * row["last named (s)"]:.0f} ms',
            )
            for case, row in read('fleet_stop').figures.items()
            if isinstance(row, dict)
        ),
    )


def window() -> str:
    """Return how often the window's page is told of robots and draws them, by its screen."""
    return table(
        ('screen', 'updates per s', 'poses per robot and s', 'drawn per s', "server's core"),
        (
            (
                screen,
                *(
                    f'{row[key]:.1f}'
                    for key in ('updates_per_s', 'poses_per_robot_per_s', 'draws_per_s')
                ),
                f'{100 * row["server_cores"]:.0f} %',
            )
            for screen, row in read('window').figures['screens'].items()
        ),
    )


def growth() -> str:
    """Return by how much programs grow that work without a fault."""
    rows = read('soak').figures['growth per hour'].items()
    return table(
        ('program', 'memory', 'descriptors', 'threads'),
        (
            (
                name,
                f'{row["memory_mb"]:.2f} MB/h',
                f'{row["descriptors"]:.2f}/h',
                f'{row["threads"]:.2f}/h',
            )
            for name, row in rows
        ),
    )


def attacks() -> str:
    """Return what became of each attack, by its seed."""
    rows = []
    for name in ATTACKS:
        found = read(name).figures
        rows.append(
            (
                found['seed'],
                f'{found["minutes"]:g} min',
                sum(found['faults'].values()),
                sum(found['tasks'].values()),
                found['tasks']['succeeded'],
                sum(found['hostile goals'].values()),
                ', '.join(f'{times} {rule}' for rule, times in broken(found).items()) or 'none',
            )
        )
    columns = ('seed', 'length', 'faults', 'tasks', 'succeeded', 'hostile goals', 'rules broken')
    return table(columns, rows)


def broken(found: dict[str, Any]) -> Counter[str]:
    """Return how often each rule was broken in an attack."""
    return Counter(breach['rule'] for breach in found['breaches'])


def refusals() -> str:
    """Return how often each rule of an envelope refused a call."""
    refused = read('envelope').figures['refused']
    return table(('rule', 'plans that it ended'), (item for item in refused.items()))


def durations() -> str:
    """Return how far off fitted durations are, by skill."""
    return table(
        ('skill', 'slope', 'mean error', 'greatest error', 'median call beyond the truth'),
        (
            (
                skill,
                *(f'{row[f"{what} error"]:.2%}' for what in ('slope', 'mean', 'greatest')),
                f'{1000 * row["call beyond that (s)"]:.0f} ms',
            )
            for skill, row in read('durations').figures.items()
        ),
    )


def scene() -> str:
    """Return what keeping scenes costs, and what became of the objects' names."""
    found = read('scene').figures
    return table(
        ('', 'measured'),
        (
            ('detections that arrived', f'{found["detections_per_s"]:.0f} a second'),
            ('processor time', f'{100 * median(found["cpu_share"]):.1f} % of a core'),
            ('without detections', f'{100 * median(found["cpu_share_without"]):.1f} %'),
            ('for each detection', f'{found["us_per_detection"]:.0f} µs'),
            ('objects known', str(found['objects'])),
            ('of them renamed', str(found['objects_renamed'])),
            ('things told that are not there', str(found['told_beside_them'])),
        ),
    )


def world() -> str:
    """Return how many tasks succeeded by the world, by their kind and how they were served."""
    success = read('world').figures['success']
    kinds = sorted({kind for row in success.values() for kind in row['by_kind']})
    rows: list[tuple[object, ...]] = []
    for kind in kinds:
        cells = ('{} of {}'.format(*row['by_kind'][kind]) for row in success.values())
        rows.append((kind.replace('_', ' '), *cells))
    rows.append(('all', *(f'{row["succeeded"]} of {row["tasks"]}' for row in success.values())))
    rows.append(('lost to a drone that turned over', *(row['wrecks'] for row in success.values())))
    return table(('kind of task', *(name.replace('%', ' %') for name in success)), rows)
