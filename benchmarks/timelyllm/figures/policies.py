"""Fig. 8: policies of segmented serving."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.common import Target
from benchmarks.timelyllm.comparison import paper
from benchmarks.timelyllm.figures.common import (
    COLOURS,
    EDF,
    FCFS,
    TIMELY,
    figures_of,
    ours,
    summary_table,
    timely,
)
from benchmarks.timelyllm.figures.experiment import Experiment, Result
from benchmarks.timelyllm.figures.runs import Best, Runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORKLOAD = 'wid2'
CAPS = (4, 6, 8, 12)
EQUAL_CAP = 6
"""Where TimelyLLM is best in the paper; its own batch for this figure is not printed."""


def run(runs: Runs) -> Result:
    """Serve ``wid2`` by each policy, at equal batches and each at its best one."""
    makers = {
        FCFS: lambda cap: paper('fcfs', cap),
        EDF: lambda cap: paper('edf', cap),
        TIMELY: timely,
    }
    equal = [
        Best(label, EQUAL_CAP, runs.serve(make(EQUAL_CAP), WORKLOAD))
        for label, make in makers.items()
    ]
    own = [runs.best(label, make, CAPS, WORKLOAD) for label, make in makers.items()]
    own.append(ours(runs, WORKLOAD))
    urgent = {item.label: item.found.groups.groups['urgent'].utility for item in equal}
    normal = {item.label: item.found.groups.groups['normal'].utility for item in equal}
    return Result(
        (
            summary_table(
                f'{WORKLOAD}, {len(runs.seeds)} draws, equal batches of {EQUAL_CAP}',
                ((item.label, item.found.groups) for item in equal),
            ),
            summary_table(
                f'each at its own best batch of {CAPS}',
                ((item.name, item.found.groups) for item in own),
            ),
        ),
        {
            'seeds': len(runs.seeds),
            'hardware': runs.hardware,
            'equal': figures_of(WORKLOAD, equal),
            'own': figures_of(WORKLOAD, own),
        },
        [
            Target('urgent utility ahead of fcfs', urgent[TIMELY] - urgent[FCFS], '>=', 0.0),
            Target('urgent utility ahead of edf', urgent[TIMELY] - urgent[EDF], '>=', 0.0),
            Target('normal utility ahead of edf', normal[TIMELY] - normal[EDF], '>=', 0.0),
        ],
        lambda figure: draw(figure, {'equal batches': equal, 'own best batch': own}),
        (9.0, 4.0),
    )


def draw(figure: Figure, found: dict[str, list[Best]]) -> None:
    """Draw a group of bars for normal and one for urgent tasks."""
    for axis, (title, items) in zip(figure.subplots(1, 2, sharey=True), found.items(), strict=True):
        for place, item in enumerate(items):
            groups = item.found.groups.groups
            width = 0.8 / len(items)
            bars = axis.bar(
                [n + (place - (len(items) - 1) / 2) * width for n in range(2)],
                [groups[name].utility for name in ('normal', 'urgent')],
                width,
                color=COLOURS[item.label],
                label=item.name,
            )
            axis.bar_label(bars, fmt='%.2f', fontsize=7)
        axis.set_xticks(range(2), ['normal', 'urgent'])
        axis.set_title(title, fontsize=9)
        axis.axhline(0, color='black', linewidth=0.6)
        axis.legend(fontsize=7, frameon=False)
        axis.set_ylabel('utility, share of its peak', fontsize=8)
    figure.tight_layout()


EXPERIMENT = Experiment(
    'fig8',
    'Policies on wid2: fcfs, edf, utility',
    (
        'urgent utility 183 % relative to fcfs, 142 % relative to edf; normal tasks not hurt',
        'edf starves normal tasks, fcfs urgent ones',
    ),
    run,
)
