"""Fig. 7: mean utility by largest batch."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from benchmarks.common import Target
from benchmarks.timelyllm.comparison import Summary, stream, whole_plan
from benchmarks.timelyllm.figures.common import (
    CAPS,
    COLOURS,
    OURS,
    STREAM,
    TIMELY,
    WHOLE_PLAN,
    ours,
    timely,
)
from benchmarks.timelyllm.figures.experiment import Experiment, Result, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from benchmarks.timelyllm.figures.runs import Runs

WORKLOAD = 'wid2'
SYSTEMS = {WHOLE_PLAN: whole_plan, STREAM: stream, TIMELY: timely}


def run(runs: Runs) -> Result:
    """Serve ``wid2`` at every largest batch."""
    found = {
        label: {cap: runs.serve(make(cap), WORKLOAD).groups for cap in CAPS}
        for label, make in SYSTEMS.items()
    }
    mine = ours(runs, WORKLOAD).found.groups
    rows = [
        (label, *(f'{by_cap[cap].utility:.3f} ({by_cap[cap].spread:.3f})' for cap in CAPS))
        for label, by_cap in found.items()
    ]
    rows.append((OURS, *([''] * (len(CAPS) - 1)), f'{mine.utility:.3f} ({mine.spread:.3f})'))
    headers = ('mean utility (sd)', *(f'batch {cap}' for cap in CAPS))
    title = f'{WORKLOAD}, {len(runs.seeds)} draws; {OURS} chooses by itself, at most 32'
    peaks = {label: max(item.utility for item in caps.values()) for label, caps in found.items()}
    ahead = peaks[TIMELY] - peaks[WHOLE_PLAN]
    share = mine.utility / max(peaks.values())
    return Result(
        (Table(title, headers, tuple(rows)),),
        {
            'seeds': len(runs.seeds),
            'hardware': runs.hardware,
            'systems': {
                label: {str(cap): asdict(item) for cap, item in by_cap.items()}
                for label, by_cap in found.items()
            },
            'ours': asdict(mine),
        },
        [
            Target('TimelyLLM at its best batch', peaks[TIMELY], '>=', 1.21),
            Target('TimelyLLM ahead of whole plan, each at its best, by', ahead, '>=', 0.0),
            Target('ours over the best fixed batch of all', share, '>=', 0.95),
        ],
        lambda figure: draw(figure, found, mine),
        (7.0, 4.0),
    )


def draw(figure: Figure, found: dict[str, dict[int, Summary]], mine: Summary) -> None:
    """Draw a line per system, with the spread over the draws."""
    axis = figure.subplots()
    for label, by_cap in found.items():
        axis.errorbar(
            list(by_cap),
            [item.utility for item in by_cap.values()],
            [item.spread for item in by_cap.values()],
            color=COLOURS[label],
            marker='o',
            capsize=3,
            label=label,
        )
    axis.axhline(mine.utility, color=COLOURS[OURS], label=OURS)
    axis.set_ylim(bottom=-3.0)
    axis.set_xticks(CAPS)
    axis.set_xlabel('largest batch')
    axis.set_ylabel('mean utility')
    axis.legend(fontsize=8, frameon=False)
    figure.tight_layout()


EXPERIMENT = Experiment(
    'fig7',
    'Batch sweep on wid2',
    (
        'TimelyLLM peaks at 1.21 at batch 6, whole plan (vLLM) at 0.74 at batch 12; both fall a '
        'little beyond',
    ),
    run,
)
