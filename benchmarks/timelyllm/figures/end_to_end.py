"""Fig. 5: utility, response and waiting by kind of task, at low and at high load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.common import Target
from benchmarks.timelyllm.figures.common import COLOURS, OURS, contenders, figures_of, summary_table
from benchmarks.timelyllm.figures.experiment import Experiment, Result
from benchmarks.workloads import PROFILES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from benchmarks.timelyllm.figures.runs import Best, Runs

KINDS = [PROFILES[number].name for number in range(1, 9)]


def run(runs: Runs) -> Result:
    """Serve ``wid1`` and ``wid2`` every way, each at its best batch."""
    found = {workload: contenders(runs, workload) for workload in ('wid1', 'wid2')}
    tables, figures, targets = [], [], []
    for workload, items in found.items():
        title = f'{workload}, {len(runs.seeds)} draws'
        tables.append(summary_table(title, ((item.name, item.found.groups) for item in items)))
        figures += figures_of(workload, items)
        mine = next(item for item in items if item.label == OURS).found.groups
        others = [item.found.groups.utility for item in items if item.label != OURS]
        targets += [
            Target(f'{workload}: mean utility ahead by', mine.utility - max(others), '>=', 0.0),
        ]
        if workload == 'wid1':
            urgent, normal = mine.groups['urgent'].utility, mine.groups['normal'].utility
            targets += [
                Target('wid1: urgent utility, share of its peak', urgent, '>=', 0.90),
                Target('wid1: normal utility, share of its peak', normal, '>=', 0.99),
            ]
        else:
            targets.append(Target('wid2: mean utility', mine.utility, '>=', 1.21))
    return Result(
        tuple(tables),
        {'seeds': len(runs.seeds), 'hardware': runs.hardware, 'systems': figures},
        targets,
        lambda figure: draw(figure, found),
        (12.0, 6.4),
    )


def draw(figure: Figure, found: dict[str, list[Best]]) -> None:
    """Draw one row per workload: utility, response and waiting, a group of bars per kind."""
    axes = figure.subplots(len(found), 3)
    for row, (workload, items) in zip(axes, found.items(), strict=True):
        for axis, (label, name) in zip(row, QUANTITIES, strict=True):
            width = 0.8 / len(items)
            for place, item in enumerate(items):
                kinds = item.found.kinds.groups
                axis.bar(
                    [n + (place - 1.5) * width for n in range(len(KINDS))],
                    [getattr(kinds.get(kind), name, 0.0) for kind in KINDS],
                    width,
                    color=COLOURS[item.label],
                    label=item.label,
                )
            axis.set_title(f'{workload}: {label}', fontsize=9)
            axis.set_xticks(range(len(KINDS)), range(1, len(KINDS) + 1))
            axis.axvspan(4.5, 7.5, color='#b03030', alpha=0.07)
            if name == 'utility':
                axis.axhline(0, color='black', linewidth=0.6)
    for axis in axes[-1]:
        axis.set_xlabel('kind of task; 6 to 8 (shaded) are urgent', fontsize=8)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=4, loc='lower center', fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))


QUANTITIES = (
    ('utility, share of its peak', 'utility'),
    ('response (s)', 'response_s'),
    ('waiting (s)', 'waiting_s'),
)

EXPERIMENT = Experiment(
    'fig5',
    'End to end: every kind of task at low (wid1) and high (wid2) load',
    (
        'wid1: urgent utility 81.5 % of its peak, whole plan (vLLM) 59.5 %; normal at its peak',
        'wid2: urgent utility +191 % relative to whole plan',
    ),
    run,
)
