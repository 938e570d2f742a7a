"""The report: one HTML file without references to the outside."""

from __future__ import annotations

import datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from lrtrace.report.chart_data import chart_data
from lrtrace.report.figures_html import (
    distribution,
    headline,
    kinds_table,
    percentiles_table,
    reasons,
    tasks_table,
)
from lrtrace.report.refusals_html import refusals
from lrtrace.report.text import e, kind_name, seconds
from lrtrace.report.world_html import world_pictures
from lrtrace.run import natural_key
from lrtrace.statistics import same_tasks
from lrtrace.timeline import NOTED
from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lrtrace.run import Run

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""Has the browser refuse whatever the page does not carry itself."""


def write_report(runs: Sequence[Run], path: str | Path, *, title: str = '') -> Path:
    """Write the report of a run, to which others may be compared; return its path.

    Raises:
        TraceError: There is no run, or the file cannot be written.
    """
    path, pieces = Path(path), _pieces(runs, title)
    head = next(pieces)
    try:
        with path.open('w', encoding='utf-8') as stream:
            stream.write(head)
            stream.writelines(pieces)
    except OSError as err:
        raise TraceError(f'report {str(path)!r}: cannot be written: {err.strerror}') from err
    return path


def _pieces(runs: Sequence[Run], title: str) -> Iterator[str]:
    """Yield the page in pieces, since one of a long run takes much memory."""
    if not runs:
        raise TraceError('0 runs: expected at least one')
    robots = sorted({robot for run in runs for robot in run.robots}, key=natural_key)
    title = title or f'{len(robots)} robots, {len(runs[0].tasks)} tasks'
    yield (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f'<title>{e(title)}</title><style>{_style()}</style></head>'
        f'<body><main><header><h1>{e(title)}</h1><p class="sub">{_subtitle(runs)}</p></header>'
        f'{_warnings(runs)}{headline(runs)}{refusals(runs)}{world_pictures(runs)}'
        f'<section><h2>Timeline</h2>{_controls()}{_filters(runs)}'
    )
    yield from (_chart(index, run) for index, run in enumerate(runs))
    yield (
        f'{_legend()}</section>'
        f'<section><h2>Why</h2>{reasons(runs)}</section>'
        f'<section><h2>Response times</h2><div class="two">{distribution(runs)}'
        f'<div>{percentiles_table(runs)}</div></div></section><section><h2>Kinds of task</h2>'
    )
    yield from kinds_table(runs)
    yield (
        f'</section><section><h2>What was run</h2>{_conditions(runs)}</section>'
        '<section><details><summary>Every task</summary>'
    )
    yield from tasks_table(runs)
    yield (
        '</details></section></main><div id="tip" role="status" hidden></div>'
        '<script type="application/json" id="data">{"runs":['
    )
    for index, run in enumerate(runs):
        yield ',' if index else ''
        yield from chart_data(run, robots)
    yield f']}}</script><script>{_script()}</script></body></html>\n'


def _style() -> str:
    return _asset('timely_llm_ros.window.look', 'look.css') + _asset('lrtrace.report', 'report.css')


def _script() -> str:
    chart = _asset('timely_llm_ros.window.look', 'gantt.js')
    return chart + _asset('lrtrace.report', 'report.js')


def _asset(package: str, name: str) -> str:
    return (resources.files(package) / name).read_text(encoding='utf-8')


def _subtitle(runs: Sequence[Run]) -> str:
    when = datetime.datetime.fromtimestamp(runs[0].start_ns / 1e9, tz=datetime.UTC)
    parts = [f'{when:%Y-%m-%d %H:%M} UTC']
    if len(runs) > 1:
        equal = same_tasks(runs)
        parts.append('the same tasks in every run' if equal else 'the runs had different tasks')
    parts.append(' against '.join(f'<b>{e(run.label)}</b>' for run in runs))
    return ' · '.join(parts)


def _warnings(runs: Sequence[Run]) -> str:
    texts = []
    for run in runs:
        if run.damage:
            texts.append(f'{run.label}: the trace is incomplete: {run.damage}')
        failed = sum(not task.succeeded for task in run.tasks)
        if failed:
            texts.append(f'{run.label}: {failed} of {len(run.tasks)} tasks did not succeed')
        if not run.tasks:
            texts.append(f'{run.label}: the trace holds no task')
    return ''.join(f'<p class="warning">{e(text)}</p>' for text in texts)


def _controls() -> str:
    buttons = ''.join(
        f'<button type="button" data-do="{name}" title="{title}">{text}</button>'
        for name, text, title in (
            ('fit', 'all', 'show the whole run'),
            ('busy', 'busiest 15 s', 'show the moment with the longest wait for the engine'),
            ('in', '+', 'zoom in'),
            ('out', '\u2212', 'zoom out'),
            ('left', '◀', 'earlier'),
            ('right', '▶', 'later'),
        )
    )
    return (
        f'<div class="controls" role="toolbar" aria-label="Timeline">{buttons}'
        '<span class="hint">drag to move, ctrl and wheel to zoom, hover for details</span></div>'
    )


def _filters(runs: Sequence[Run]) -> str:
    """Return the inputs that filter the timelines and the table of tasks."""
    kinds = sorted({task.kind for run in runs for task in run.tasks})
    options = ''.join(f'<option value="{e(kind)}">{e(kind_name(kind))}</option>' for kind in kinds)
    return (
        '<div class="controls" role="search" aria-label="Filter">'
        '<input id="filter-robot" type="search" placeholder="robot" aria-label="robot">'
        '<select id="filter-kind" aria-label="kind of task"><option value="">every kind</option>'
        f'{options}</select>'
        '<select id="filter-only" aria-label="which tasks"><option value="">all tasks</option>'
        '<option value="late">late</option><option value="failed">failed</option>'
        '<option value="urgent">urgent</option></select><output id="shown"></output></div>'
    )


def _chart(index: int, run: Run) -> str:
    return (
        f'<figure class="gantt"><figcaption>{e(run.label)}'
        f'<span> · {e(seconds(run.duration_s))}</span></figcaption>'
        f'<canvas data-run="{index}" tabindex="0" role="img" aria-label="Timeline of '
        f'{e(run.label)}: generation and execution of every segment per robot"></canvas></figure>'
    )


def _legend() -> str:
    items = (
        ('wait', 'waits for the engine'),
        ('generate', 'segment generated'),
        ('act', 'robot acts'),
        ('act-urgent', 'acts, urgent task'),
        ('idle', 'robot waits'),
        ('received', 'task received'),
        ('due', 'expected response time'),
        ('missed', 'missed'),
        ('failed', 'failed'),
    )
    keys = ''.join(f'<li class="{name}">{text}</li>' for name, text in items)
    return (
        f'<ul class="key legend">{keys}</ul><p class="note">Upper lane of a row: the engine works '
        'for this robot; a bar ends at the token that completes its segment and is as long as the '
        'engine time spent on it. Lower lane: the robot acts. The engine: generations that run, '
        'above them those that are queued, and pale those that are suspended.</p>'
    )


def _conditions(runs: Sequence[Run]) -> str:
    names = dict.fromkeys(name for run in runs for name in run.custom_data if name not in NOTED)
    rows = [
        ('engine', [run.engine for run in runs]),
        ('model', [Path(run.model).name for run in runs]),
        ('mode', [run.mode for run in runs]),
        ('policy', [run.policy for run in runs]),
        ('tasks', [str(len(run.tasks)) for run in runs]),
        ('robots', [str(len(run.robots)) for run in runs]),
        ('duration', [seconds(run.duration_s) for run in runs]),
        *((name, [run.custom_data.get(name, '') for run in runs]) for name in names),
        ('trace', [run.path for run in runs]),
    ]
    head = ''.join(f'<th>{e(run.label)}</th>' for run in runs)
    body = ''.join(
        f'<tr><th scope="row">{e(name.replace("_", " "))}</th>'
        + ''.join(f'<td class="text">{e(value)}</td>' for value in values)
        + '</tr>'
        for name, values in rows
        if any(values)
    )
    return (
        f'<div class="scroll"><table class="plain"><thead><tr><th></th>{head}</tr></thead>'
        f'<tbody>{body}</tbody></table></div>'
    )
