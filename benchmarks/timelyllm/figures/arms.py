"""Fig. 9: arms, whose plans are long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.common import Target
from benchmarks.timelyllm.figures.common import (
    COLOURS,
    OURS,
    WHOLE_PLAN,
    contenders,
    figures_of,
    summary_table,
)
from benchmarks.timelyllm.figures.experiment import Experiment, Result
from benchmarks.workloads import PROFILES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from benchmarks.timelyllm.figures.runs import Best, Runs

WORKLOAD = 'wid3'
CAPS = (4, 8, 16)
KINDS = [PROFILES[number].name for number in (9, 10, 11)]


def run(runs: Runs) -> Result:
    """Serve ``wid3`` every way, each at its best batch."""
    items = contenders(runs, WORKLOAD, CAPS)
    by_label = {item.label: item.found.groups for item in items}
    mine, whole = by_label[OURS], by_label[WHOLE_PLAN]
    less = 1 - mine.waiting_s / whole.waiting_s
    others = [summary.utility for label, summary in by_label.items() if label != OURS]
    return Result(
        (
            summary_table(
                f'{WORKLOAD}, {len(runs.seeds)} draws, each at its best batch of {CAPS}',
                ((item.name, item.found.groups) for item in items),
            ),
            summary_table('by kind of task', ((item.name, item.found.kinds) for item in items)),
        ),
        {
            'seeds': len(runs.seeds),
            'hardware': runs.hardware,
            'systems': figures_of(WORKLOAD, items),
        },
        [
            Target('waiting less than whole plan by', less, '>=', 0.9),
            Target('mean utility, peak 1', mine.utility, '>=', 0.95),
            Target('mean utility ahead by', mine.utility - max(others), '>=', 0.0),
        ],
        lambda figure: draw(figure, items),
        (10.0, 3.6),
    )


def draw(figure: Figure, items: list[Best]) -> None:
    """Draw utility and waiting, a group of bars per kind."""
    for axis, (label, name) in zip(
        figure.subplots(1, 2), (('utility', 'utility'), ('waiting (s)', 'waiting_s')), strict=True
    ):
        width = 0.8 / len(items)
        for place, item in enumerate(items):
            bars = axis.bar(
                [n + (place - 1.5) * width for n in range(len(KINDS))],
                [getattr(item.found.kinds.groups.get(kind), name, 0.0) for kind in KINDS],
                width,
                color=COLOURS[item.label],
                label=item.name,
            )
            axis.bar_label(bars, fmt='%.2f', fontsize=6)
        axis.set_xticks(range(len(KINDS)), KINDS)
        axis.axhline(0, color='black', linewidth=0.6)
        axis.set_title(label, fontsize=9)
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, ncols=4, loc='lower center', fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))


EXPERIMENT = Experiment(
    'fig9',
    'Arm tasks (wid3): plans of a hundred tokens',
    ('desk cleaning: utility +1.97, waiting -84 % relative to whole plan (vLLM)',),
    run,
)
