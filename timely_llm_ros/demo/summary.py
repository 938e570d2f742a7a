"""Tables of what the demo's runs measured, read from their traces."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from lrtrace.statistics import by_kind, figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lrtrace.run import Run
    from lrtrace.statistics import Figures
    from timely_llm_ros.demo.task_outcome import TaskOutcome
    from timely_llm_ros.demo.workload import TimedTask

SLOW = 1.5
"""Steps that take so many times their pace are told of."""

_SHORT = {'segmented': 'segm.', 'whole_plan': 'whole'}


def summary_table(runs: Sequence[Run]) -> Table:
    """Return response, waiting, utility and success per kind of task, the runs side by side.

    Success by the world is told where a world judged.
    """
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        title='seconds are medians, utilities means',
        title_style='dim',
    )
    table.add_column('kind of task', no_wrap=True)
    table.add_column('tasks', justify='right', no_wrap=True)
    for what in ('response', 'waiting', 'utility'):
        for index, run in enumerate(runs):
            title = f'{what if index == 0 else ""}\n{_SHORT.get(run.mode, run.mode)}'
            style = 'bold' if index == 0 else ''
            table.add_column(title, justify='right', no_wrap=True, style=style)
    totals = [figures(run.tasks) for run in runs]
    judged = any(total.judged for total in totals)
    for index, run in enumerate(runs if judged else ()):
        title = f'{"world" if index == 0 else ""}\n{_SHORT.get(run.mode, run.mode)}'
        table.add_column(title, justify='right', no_wrap=True, style='' if index else 'bold')
    kinds = [by_kind(run) for run in runs]
    for kind in dict.fromkeys(name for found in kinds for name in found):
        rows = [found.get(kind) for found in kinds]
        some = next(row for row in rows if row is not None)
        text = kind.replace('_', ' ') + (' !' if some.urgent else '')
        name = Text(text, style='red' if some.urgent else '')
        table.add_row(name, str(some.tasks), *_cells(rows), *(_judged(rows) if judged else ()))
    table.add_section()
    table.add_row(
        Text('all', style='bold'),
        str(totals[0].tasks),
        *_cells(totals),
        *(_judged(totals) if judged else ()),
    )
    table.caption = 'segm.: segmented; whole: whole plan; !: urgent'
    return table


def headline(runs: Sequence[Run]) -> str:
    """Return the comparison in one sentence."""
    first, other = (figures(run.tasks) for run in runs[:2])
    text = (
        f'Median response {_seconds(first.median_response_s)} {runs[0].mode.replace("_", " ")}, '
        f'{_seconds(other.median_response_s)} {runs[1].mode.replace("_", " ")}'
    )
    if first.median_response_s > 0 and math.isfinite(other.median_response_s):
        text += f' ({other.median_response_s / first.median_response_s:.1f} times as long)'
    text += (
        f'; robots in time {first.tasks - first.late} of {first.tasks}, '
        f'{other.tasks - other.late} of {other.tasks}'
    )
    if first.judged and other.judged:
        text += (
            f'; succeeded by the world {first.by_world} of {first.judged}, '
            f'{other.by_world} of {other.judged}'
        )
    return f'{text}.'


def slow_engine(runs: Sequence[Run], pace_s: float) -> str:
    """Return that the engine could not keep its pace (s a step), in one sentence; '' if it did."""
    steps_s = [one.step_s for run in runs for one in run.samples if one.running and one.step_s > 0]
    if not (pace_s and steps_s and median(steps_s) > SLOW * pace_s):
        return ''
    return (
        f'An engine step took {1000 * median(steps_s):.0f} ms in the median, not '
        f'{1000 * pace_s:.1f}: the machine is busy, or too slow for this model at that pace. All '
        'that is above took longer for it.'
    )


def budget_table(
    runs: Sequence[tuple[str, Sequence[tuple[TimedTask, TaskOutcome]]]],
) -> Table:
    """Return prediction, eviction ratio and outcome of every task with a time budget."""
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, title='tasks with a time budget'
    )
    table.add_column('run', no_wrap=True)
    table.add_column('kind of task', no_wrap=True)
    for what in ('budget', 'predicted', 'worst', 'evicted', 'took'):
        table.add_column(what, justify='right', no_wrap=True)
    table.add_column('outcome')
    for mode, tasks in runs:
        for task, result in tasks:
            known = result.predicted_tokens > 0
            took_s = result.took_s if result.refused else result.generation_s
            outcome = result.error or result.status
            if result.refused:
                outcome = f'refused in {1e3 * took_s:.0f} ms: {outcome}'
            table.add_row(
                _SHORT.get(mode, mode),
                task.kind.replace('_', ' '),
                _seconds(task.time_budget_s or math.nan),
                _seconds(result.predicted_s) if known else '-',
                _seconds(result.worst_s) if known else '-',
                f'{result.eviction_ratio:.0%}' if known else '-',
                _seconds(took_s),
                Text(outcome, style='yellow' if result.refused else ''),
            )
    return table


def _cells(rows: Sequence[Figures | None]) -> list[str]:
    return [
        *('' if row is None else _seconds(row.median_response_s) for row in rows),
        *('' if row is None else _seconds(row.median_waiting_s) for row in rows),
        *('' if row is None else f'{row.mean_utility:.2f}' for row in rows),
    ]


def _judged(rows: Sequence[Figures | None]) -> list[str]:
    return [
        f'{row.by_world}/{row.judged}' if row is not None and row.judged else '-' for row in rows
    ]


def _seconds(value: float) -> str:
    return f'{value:.2f} s' if math.isfinite(value) else '-'
