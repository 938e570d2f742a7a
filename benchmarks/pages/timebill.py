"""Tables on time budgets, and on the predictors of lengths that they rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.pages.writing import read, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FORESIGHT = ('lengths told', 'oracle')
"""Approaches that know what nobody can know beforehand."""


def context() -> dict[str, Any]:
    """Return what the page's template names."""
    found = read('timebill').figures
    general = read('llm_budget').figures
    return {
        'general': general,
        'general_approaches': {
            overrun: approaches(general, overrun) for overrun in ('kill', 'skip_next')
        },
        'found': found,
        'approaches': {overrun: approaches(found, overrun) for overrun in ('kill', 'skip_next')},
        'steps': steps(found),
        'k_sweep': k_sweep(found),
        'weights': weights(found['frontier']),
        'quality': quality(found['quality_by_share']),
        'predictors': predictors(),
        'learned': read('rlp').figures,
    }


def steps(found: Mapping[str, Any]) -> str:
    """Return how long a step takes, by batch, context and the share evicted."""
    times_ms = {(it['batch'], it['context'], it['evicted']): it['step_ms'] for it in found['steps']}
    shares = sorted({share for _, _, share in times_ms})
    return table(
        ('batch', 'context', *(f'{share:.0%}' for share in shares)),
        (
            (batch, size, *(f'{times_ms[batch, size, share]:.2f}' for share in shares))
            for batch, size in sorted({(batch, size) for batch, size, _ in times_ms})
        ),
    )


def approaches(found: Mapping[str, Any], overrun: str) -> str:
    """Return the score and the share completed of each approach, by budget."""
    by_name: Mapping[str, Sequence[Mapping[str, float]]] = found['approaches']
    blind = [rows for name, rows in by_name.items() if name not in FORESIGHT]
    best = [max(row[f'{overrun}_f1'] for row in rows) for rows in zip(*blind, strict=True)]
    lines = []
    for name, rows in by_name.items():
        cells = []
        for row, most in zip(rows, best, strict=True):
            f1 = f'{row[f"{overrun}_f1"]:.3f}'
            if name not in FORESIGHT and row[f'{overrun}_f1'] == most:
                f1 = f'**{f1}**'
            cells.append(f'{f1} / {row[f"{overrun}_completion"]:.0%}')
        lines.append((name, *cells))
    ahead = (
        f'{row["ahead"]:+.3f} ± {row["standard_error"]:.3f}'
        for row in found['ahead_of_the_best_fixed_share'][overrun]
    )
    lines.append(('TimeBill less the best fixed share', *ahead))
    return table(('approach', *(f'{budget_s:.3f} s' for budget_s in found['budgets_s'])), lines)


def k_sweep(found: Mapping[str, Any]) -> str:
    """Return what the pessimism factor of the printed rule does."""
    rows = found['k_sweep']['rows']
    return table(
        ('k', *(f'{row["k"]:.0f}' for row in rows)),
        (
            ('F1', *(f'{row["kill_f1"]:.3f}' for row in rows)),
            ('completed', *(f'{row["kill_completion"]:.0%}' for row in rows)),
        ),
    )


def weights(rows: Sequence[Mapping[str, float]]) -> str:
    """Return what the weight of ending in time trades."""
    return table(
        ('weight', *(f'{row["weight"]:g}' for row in rows)),
        (
            ('score, mean of the budgets', *(f'{row["ahead_mean"]:+.3f}' for row in rows)),
            ('score, worst budget', *(f'{row["ahead_worst"]:+.3f}' for row in rows)),
            ('completion, mean', *(f'{100 * row["completion_mean"]:+.1f}' for row in rows)),
            ('completion, worst', *(f'{100 * row["completion_worst"]:+.1f}' for row in rows)),
        ),
    )


def quality(by_share: Mapping[str, Mapping[str, float]]) -> str:
    """Return how good plans are without any budget, by the share evicted."""
    return table(
        ('evicted', *(f'{float(share):.0%}' for share in by_share)),
        (
            ('F1', *(f'{row["f1"]:.3f}' for row in by_share.values())),
            ('exactly right', *(f'{row["exact"]:.0%}' for row in by_share.values())),
            ('median s', *(f'{row["median_s"]:.3f}' for row in by_share.values())),
        ),
    )


def predictors() -> str:
    """Return how far off predicted lengths are."""
    return table(
        ('predictor', 'MAE', 'RMSE', 'R²', 'MAE, eq. 2', 'learned in'),
        (
            (
                row['name'],
                f'{row["mae"]:.2f}',
                f'{row["rmse"]:.2f}',
                f'{row["r2"]:.3f}',
                '' if row['upper_edge_mae'] is None else f'{row["upper_edge_mae"]:.2f}',
                f'{row["train_s"]:.0f} s',
            )
            for row in read('rlp').figures['rows']
        ),
    )
