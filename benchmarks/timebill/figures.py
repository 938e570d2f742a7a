"""What the TimeBill comparison prints and draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.common import picture

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Row = dict[str, float]
Rows = dict[str, list[Row]]
"""By approach, one row for each budget."""


def table(rows: Rows, budgets_s: Sequence[float]) -> None:
    """Print score (F1), exact plans and completion of every approach at every budget."""
    for overrun in ('kill', 'skip_next'):
        print(f'{overrun}: F1 / exact / completion, by budget (s)')
        print(f'{"":>20}' + ''.join(f'{T:>19.3f}' for T in budgets_s))
        for name, found in rows.items():
            cells = (
                f'{r[f"{overrun}_f1"]:.3f}/{r[f"{overrun}_exact"]:.2f}/{r[f"{overrun}_completion"]:.2f}'
                for r in found
            )
            print(f'{name:>20}' + ''.join(f'{cell:>19}' for cell in cells))


def draw(rows: Rows, budgets_s: Sequence[float], sweep: Sequence[Row], path: Path) -> None:
    """Draw score and completion over budgets, and over k."""
    figure, axes = picture(path, 4)
    for number, (name, found) in enumerate(rows.items()):
        style: dict[str, Any] = {
            'color': f'C{number}',
            'label': name,
            'lw': 2.5 if name == 'TimeBill' else 1,
        }
        if name == 'oracle':
            style |= {'color': 'black', 'ls': ':'}
        for axis, key in zip(axes, ('kill_f1', 'skip_next_f1', 'kill_completion'), strict=False):
            axis.plot(budgets_s, [row[key] for row in found], marker='.', **style)
    for key, label in (('kill_f1', 'score'), ('kill_completion', 'completion')):
        axes[3].plot(
            [row['k'] for row in sweep], [row[key] for row in sweep], marker='.', label=label
        )
    for axis, x, y in zip(
        axes,
        ('budget (s)', 'budget (s)', 'budget (s)', 'k'),
        ('score, Kill', 'score, Skip-Next', 'completion, Kill', 'as printed, Kill'),
        strict=True,
    ):
        axis.set_xlabel(x)
        axis.set_title(y, fontsize=9)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=6)
    figure.savefig(path, dpi=110)
    print(path)
