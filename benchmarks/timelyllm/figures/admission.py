"""Does the admission rule find the batch by itself? Against fixed batches of the same policy."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from benchmarks.common import Target
from benchmarks.timelyllm.comparison import Summary, least_loss_fixed, lookahead
from benchmarks.timelyllm.figures.common import CAPS, COLOURS, OURS, TIMELY, timely
from benchmarks.timelyllm.figures.experiment import Experiment, Result, Table
from benchmarks.workloads import WORKLOADS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from benchmarks.timelyllm.figures.runs import Runs

FIXED = 'least_loss, fixed'
SYSTEMS = {FIXED: least_loss_fixed, TIMELY: timely}


def run(runs: Runs) -> Result:
    """Serve every workload at every largest batch, and with the admission rule."""
    found: dict[str, dict[str, list[Summary]]] = {}
    rows, targets = [], []
    for workload in WORKLOADS:
        found[workload] = {
            label: [runs.serve(make(cap), workload).groups for cap in CAPS]
            for label, make in SYSTEMS.items()
        }
        mine = runs.serve(lookahead(), workload).groups
        found[workload][OURS] = [mine]
        for label in SYSTEMS:
            cells = [f'{one.utility:.3f} ({one.spread:.3f})' for one in found[workload][label]]
            rows.append((workload, label, *cells))
        blank = [''] * (len(CAPS) - 1)
        rows.append((workload, OURS, *blank, f'{mine.utility:.3f} ({mine.spread:.3f})'))
        best = max(one.utility for label in SYSTEMS for one in found[workload][label])
        share = mine.utility / best
        targets.append(Target(f'{workload}: over the best fixed batch', share, '>=', 0.95))
    headers = ('workload', 'mean utility (sd)', *(f'batch {cap}' for cap in CAPS))
    title = f'{len(runs.seeds)} draws; {OURS} chooses by itself, at most 32'
    return Result(
        (Table(title, headers, tuple(rows)),),
        {
            'seeds': len(runs.seeds),
            'hardware': runs.hardware,
            'batches': CAPS,
            'workloads': {
                workload: {label: [asdict(one) for one in each] for label, each in systems.items()}
                for workload, systems in found.items()
            },
        },
        targets,
        lambda figure: draw(figure, found),
        (10.0, 3.4),
    )


def draw(figure: Figure, found: dict[str, dict[str, list[Summary]]]) -> None:
    """Draw one panel per workload, a line per way."""
    for axis, (workload, systems) in zip(
        figure.subplots(1, len(found)), found.items(), strict=True
    ):
        for label, colour in ((FIXED, '#8c8c8c'), (TIMELY, COLOURS[TIMELY])):
            utility = [one.utility for one in systems[label]]
            axis.plot(CAPS, utility, color=colour, marker='o', label=label)
        mine = systems[OURS][0].utility
        axis.axhline(mine, color=COLOURS[OURS], label=OURS)
        axis.set_ylim(max(-2.0, axis.get_ylim()[0]), mine + 0.2)
        axis.set_title(workload, fontsize=9)
        axis.set_xticks(CAPS)
        axis.set_xlabel('largest batch')
    axis.legend(fontsize=8, frameon=False)
    figure.supylabel('mean utility', fontsize=9)
    figure.tight_layout()


EXPERIMENT = Experiment(
    'admission',
    'The batch that admission finds by itself',
    ('latency-guided admission; its best batch is found by sweeping (fig. 7)',),
    run,
)
