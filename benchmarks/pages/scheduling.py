"""Tables on what scheduling and segments cost, and how many robots one machine simulates."""

from __future__ import annotations

from typing import Any

from benchmarks.pages.writing import read, table
from benchmarks.timelyllm import PAPER_US

POLICIES = ('fcfs', 'edf', 'utility')


def context() -> dict[str, Any]:
    """Return what the page's template names."""
    delivery = read('overhead').figures['delivery']
    return {
        'steps': steps(),
        'fleets': fleets('scale'),
        'thousands': fleets('thousands'),
        'segmentation': read('overhead').figures['segmentation'],
        'token_to_action_ms': _ms(delivery['token_to_action_s']),
        'first_ms': ', '.join(f'{1000 * one:.0f}' for one in delivery['first_segments_s']),
        'bare_topic_ms': _ms(delivery['bare_topic_s']),
        'engine_step_ms': f'{1000 * delivery["engine_step_s"]:.1f}',
        'forwarded': forwarded(),
        'same_ids': min(row['same_ids'] for _, row in _forwarded()),
    }


def steps() -> str:
    """Return what one scheduling step takes, by the number that waits."""
    return table(
        ('waiting', *(f'`{policy}`' for policy in POLICIES), 'naive', 'paper'),
        (
            (
                row['waiting'],
                *(f'{row[policy]:.1f}' for policy in POLICIES),
                f'{row["naive"]:.1f}',
                f'{PAPER_US[row["waiting"]]:.0f}' if row['waiting'] in PAPER_US else '-',
            )
            for row in read('scheduling').figures
        ),
    )


def fleets(name: str) -> str:
    """Return what simulating fleets takes, from the results of that name."""
    rows, seen = [], set[int]()
    for row in read(name).figures:
        robots = f'{row["robots"]:,}' + (' again' if row['robots'] in seen else '')
        seen.add(row['robots'])
        rows.append(
            (
                robots,
                f'{row["tasks"]:,}',
                f'{row["segments"]:,}',
                f'{row["wall_s"]:.1f}',
                f'{row["cpu_s"]:.1f}',
                f'{row["us_per_segment"]:.0f}',
                f'{row["peak_mib"]:.0f}',
                f'{row["mean_utility"]:.3f}',
                f'{row["mean_waiting_s"]:.3f}',
                row['log_sha256'][:16],
            )
        )
    head = (
        'robots', 'tasks', 'segments', 'wall s', 'CPU s', 'CPU us per segment', 'peak MiB',
        'mean utility', 'mean waiting s', 'event log',
    )  # fmt: skip
    return table(head, rows)


def forwarded() -> str:
    """Return what fast-forward saves, by model, size of the scene and batch."""
    head = (
        'model', 'objects', 'scenes', 'batch', 'plans', 'steps per token', 'plans/s without',
        'with', 'times', 'decoding, times', 'first segment, ms without', 'with',
    )  # fmt: skip
    rows = []
    for model, row in _forwarded():
        decoding = row['decoding_gain']
        alone = row['batch'] == 1
        rows.append(
            (
                model,
                row['objects'],
                row.get('scenes', 'new'),
                row['batch'],
                row['plans'],
                f'{row["steps_per_token"]:.3f}',
                *(f'{speed:.1f}' for speed in row['plans_per_cpu_s']),
                f'{row["gain"]:.2f} ± {row["gain_error"]:.2f}',
                '-' if decoding is None else f'{decoding:.2f}',
                *(f'{1000 * time_s:.1f}' if alone else '-' for time_s in row['first_cpu_s']),
            )
        )
    return table(head, rows)


def _forwarded() -> list[tuple[str, dict[str, Any]]]:
    # The run with a general model has the shipped one in a few tasks only.
    models = read('first_action_general').figures['models'] | read('first_action').figures['models']
    return [(name, row) for name, rows in models.items() for row in rows]


def _ms(times_s: dict[str, float]) -> str:
    return ' / '.join(f'{1000 * times_s[share]:.1f}' for share in ('p50', 'p99'))
