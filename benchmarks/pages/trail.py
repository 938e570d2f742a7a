"""Tables on serving the shortest remaining plan first, and on how far its predictions hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.pages.writing import read, table

if TYPE_CHECKING:
    from collections.abc import Mapping


def context() -> dict[str, Any]:
    """Return what the page's template names."""
    found = read('trail').figures
    return {
        'found': found,
        'errors': errors(found['probe']),
        'bound': bound(found['bound']),
        'ratios': ratios(found['bound']),
        'bound_latency': bound_latency(found['bound']['replay']),
        'latency': {part: latency(found[part]) for part in ('replay', 'replay_open', 'serving')},
        'by_c': {part: by_c(found[part], part) for part in ('replay', 'ablation')},
        'coverage': coverage,
        'chats': chats(read('llm_lengths').figures),
    }


def errors(probe: Mapping[str, Any]) -> str:
    """Return how far off the remaining length is, by predictor and scenes."""
    each = {scenes: found['mean_error_tokens'] for scenes, found in probe.items()}
    names = next(iter(each.values()))
    return table(
        ('tokens', *each),
        ((name, *(f'{found[name]:.2f}' for found in each.values())) for name in names),
    )


def bound(found: Mapping[str, Any]) -> str:
    """Return how far off predictions of open tasks are, the best possible ones among them."""
    return table(
        ('who predicts', 'tokens'),
        (
            (who, f'{error:.2f} ({found["standard_errors"][who]:.2f})')
            for who, error in found['errors'].items()
        ),
    )


def ratios(found: Mapping[str, Any]) -> str:
    """Return how many times as far off one is as another."""
    return table(
        ('ratio of errors', 'measured'),
        ((what, f'{ratio:.2f} ({error:.2f})') for what, (ratio, error) in found['ratios'].items()),
    )


def bound_latency(replay: Mapping[str, Any]) -> str:
    """Return the latencies that the best possible predictions of open tasks would give."""
    return table(
        ('system', 'mean latency (s)', "share of the oracle's gain"),
        (
            (name, f'{mean_s:.2f}', f'{replay["gain"][name]:.0%}')
            for name, mean_s in replay['mean_s'].items()
        ),
    )


def latency(part: Mapping[str, Any]) -> str:
    """Return mean latency and time to the first token, by system and load."""
    runs = {(run['system'], run['load']): run for run in part['runs']}
    loads = sorted({load for _, load in runs})
    names = dict.fromkeys(name for name, _ in runs if 'c=' not in name)
    return table(
        ('system', *(f'load {load:g}' if load else 'burst' for load in loads)),
        (
            (
                name,
                *(
                    f'{run["mean_s"]:.2f} / {run["first_mean_s"]:.2f}'
                    for run in (runs[name, load] for load in loads)
                ),
            )
            for name in names
        ),
    )


def by_c(found: Mapping[str, Any], part: str) -> str:
    """Return what the share of a plan in which it may be preempted does."""
    runs = [run for run in found['runs'] if 'c=' in run['system']]
    rows = [('mean latency (s)', *(f'{run["mean_s"]:.2f}' for run in runs))]
    if part == 'ablation':
        rows.append(('computed again', *(f'{run["spilled"]}' for run in runs)))
    return table(('c', *(f'{run["share"]:g}' for run in runs)), rows)


def coverage(scenes: str) -> str:
    """Return how often quantiles of predicted lengths hold, by the share evicted."""
    rows = read('calibration').figures[scenes]
    quantiles = next(iter(rows.values()))['coverage']['probe']
    return table(
        ('evicted', 'plans', *(f'{float(q):.0%}' for q in quantiles)),
        (
            (
                f'{float(share):.0%}',
                row['plans'],
                *(
                    f'{row["coverage"]["probe"][q]:.0%} / {row["coverage"]["prompt"][q]:.0%}'
                    for q in quantiles
                ),
            )
            for share, row in rows.items()
        ),
    )


def chats(found: dict[str, Any]) -> dict[str, Any]:
    """Return the tables of a general model's chat answers, with their figures."""
    answers, errors = found['answers'], found['prediction']['mean_error_tokens']
    cells = {'all': answers['all']} | answers['forms']
    return found | {
        'lengths': table(
            ('asked for', 'answers', 'cut off', 'mean tokens', '10 %', 'median', '90 %'),
            (
                (
                    form,
                    cell['answers'],
                    cell['censored'],
                    *(
                        f'{tokens:.0f}'
                        for tokens in (cell['mean_tokens'], *cell['tokens'].values())
                    ),
                )
                for form, cell in cells.items()
            ),
        ),
        'errors': table(
            ('who predicts', 'tokens'),
            (
                (who, f'{error:.1f}')
                for who, error in sorted(errors.items(), key=lambda it: it[1], reverse=True)
            ),
        ),
        'latency': table(
            ('load', 'system', 'mean (s)', 'p99 (s)', 'first token, mean (s)', 'p99 (s)'),
            (
                (
                    f'{run["load"]:g}',
                    run['system'],
                    *(
                        f'{run[what]:.2f}'
                        for what in ('mean_s', 'p99_s', 'first_mean_s', 'first_p99_s')
                    ),
                )
                for run in found['replay']['runs']
            ),
        ),
    }
