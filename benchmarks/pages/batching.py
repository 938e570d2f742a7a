"""Tables on the background lane, multi-bin batching and micro-batches of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.multibin import carried_throughput, error_service_s, uniform_throughput
from benchmarks.pages.writing import percent, read, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UNIFORM = (1.0, 20.0, 128)
"""Least and greatest time (s) and the batch of the paper's figures 3, 4 and 8."""

SYSTEMS = ('baseline', 'budget', 'both')


def context() -> dict[str, Any]:
    """Return what the page's template names."""
    simulated, real = read('multibin_theory').figures, read('multibin').figures
    gains = real['gain']
    optimal = [name for name in gains if name.startswith('optimal ')]
    return {
        'background': read('background').figures,
        'urgent': urgent(),
        'draws': simulated['draws'],
        'carried': carried(simulated['fig3_fig4']['one_server']),
        'mistakes': mistakes(simulated['fig8']),
        'answers': answers(simulated['fig6']),
        'exponential': exponential(simulated['fig9']),
        'real': real,
        'real_table': real_table(real),
        'uniform': [uniform_throughput(0.0, 1.0, 8, k) for k in (1, 4, 32)],
        'below': [name.split()[1] for name in optimal if gains[name] <= gains['continuous']],
        'above': [name.split()[1] for name in optimal if gains[name] > gains['continuous']],
        'pipeline': pipeline(),
        'model': read('pipeline').figures['model'],
        'fitted_by': read('pipeline').figures['fitted_by'],
    }


def urgent() -> str:
    """Return how soon urgent tasks are answered, with and without a background."""
    named = {'robots': 'robots alone', 'both': 'with the background'}
    return table(
        ('', 'p50', 'p90', 'p99'),
        (
            (named[name], *(f'{1000 * found[q]:.1f} ms' for q in ('p50', 'p90', 'p99')))
            for name, found in read('background').figures['urgent_response_s'].items()
        ),
    )


def carried(rows: Sequence[Mapping[str, float]]) -> str:
    """Return figures 3 and 4: throughput beside the theory, and latency."""
    by_bins = {(row['per_s'], int(row['bins'])): row for row in rows}
    bins = sorted({k for _, k in by_bins})

    def cell(per_s: float, k: int) -> str:
        row, most = by_bins[per_s, k], uniform_throughput(*UNIFORM, k)
        latency = f'{row["latency_s"]:.1f}' if per_s < most else '-'
        return f'{row["throughput_per_s"]:.3f} / {carried_throughput(per_s, most):.3f}, {latency}'

    return table(
        ('per s', *(f'k = {k}' for k in bins)),
        (
            (f'{per_s:g}', *(cell(per_s, k) for k in bins))
            for per_s in sorted({per_s for per_s, _ in by_bins})
        ),
    )


def mistakes(rows: Sequence[Mapping[str, float]]) -> str:
    """Return figure 8: throughput by the chance of a wrong bin, beside the theory."""
    by_bins = {(row['per_s'], int(row['bins'])): row['throughput_per_s'] for row in rows}
    bins = sorted({k for _, k in by_bins})
    return table(
        ('p_e', *(f'k = {k}' for k in bins)),
        (
            (
                f'{chance:g}',
                *(
                    f'{by_bins[chance, k]:.3f} / '
                    f'{UNIFORM[2] / error_service_s(*UNIFORM, k, chance):.3f}'
                    for k in bins
                ),
            )
            for chance in sorted({chance for chance, _ in by_bins})
        ),
    )


def answers(found: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Return figure 6: most throughput and least latency, by the kind of boundaries."""

    def best(name: str, k: float) -> str:
        rows = [row for row in found[name] if row['bins'] == k]
        most = max(row['throughput_per_s'] for row in rows)
        return f'{most:.3f}, {min(row["latency_s"] for row in rows):.2f}'

    return table(
        ('bins', 'equal masses', 'optimal boundaries'),
        (
            (k, best('equal mass', k), best('optimal', k))
            for k in sorted({row['bins'] for row in found['optimal']})
        ),
    )


def exponential(rows: Sequence[Mapping[str, float]]) -> str:
    """Return figure 9: throughput with exponential times."""
    by_bins = {(row['per_s'], int(row['bins'])): row['throughput_per_s'] for row in rows}
    bins = sorted({k for _, k in by_bins})
    return table(
        ('per s', *(f'k = {k}' for k in bins)),
        (
            (f'{per_s:g}', *(f'{by_bins[per_s, k]:.3f}' for k in bins))
            for per_s in sorted({per_s for per_s, _ in by_bins})
        ),
    )


def real_table(figures: Mapping[str, Any]) -> str:
    """Return figures 7 and 11: what each way gains on the real engine."""
    gains, steps, expected = figures['gain'], figures['steps_gain'], figures['theory_gain']
    labels = {'equal 1': 'one bin'}
    for kind, start in (('equal masses', 'equal '), ('optimal', 'optimal ')):
        for name in gains:
            if name.startswith(start) and name != 'equal 1':
                labels[name] = f'{name.split()[1]} bins, oracle, {kind}'
    labels |= {name: name for name in gains if not name.startswith(('equal ', 'optimal '))}
    return table(
        ('', 'requests/s', 'gain over one bin', 'steps', 'theory'),
        (
            (
                label,
                f'{figures["per_s"][name]:.1f}',
                f'{percent(gains[name])} ± {100 * figures["gain_error"][name]:.1f}',
                percent(steps[name]) if name in steps else '',
                percent(expected[name]) if name in expected else '',
            )
            for name, label in labels.items()
        ),
    )


def pipeline() -> str:
    """Return the micro-batch paper's table 1, beside what it measured."""
    lines = []
    for row in read('pipeline').figures['rows']:
        served, paper = row['served'], row['paper']
        first, last = paper['baseline'], paper['both']
        idle = 100 * (1 - last['idle_s'] / first['idle_s'])
        speedup = first['completion_s'] / last['completion_s']
        beside = (
            f'{served[name]["completion_s"]:.1f} ({paper[name]["completion_s"]:.1f})'
            for name in SYSTEMS
        )
        lines.append(
            (
                row['workload'],
                *beside,
                *(f'{served[name]["completion_s"]:.1f}' for name in ('period', 'sure')),
                f'{row["gains"]["both"]["speedup"]:.2f} ({speedup:.2f})',
                f'{row["gains"]["both"]["idle_pct"]:.0f} % ({idle:.0f} %)',
            )
        )
    return table(('workload', *SYSTEMS, 'period', 'sure', 'speed-up', 'idle'), lines)
