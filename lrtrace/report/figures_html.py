"""The parts of the report that need no script: headline, reasons, tables, distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lrtrace.report.text import NOTHING, e, kind_name, number, seconds
from lrtrace.statistics import by_kind, figures, percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lrtrace.run import RecordedTask, Run
    from lrtrace.statistics import Figures


PARTS = {
    'behind': 'an earlier task of the robot ends',
    'wait': 'waits for the engine',
    'generate': 'the first segment is generated',
    'deliver': 'it is brought to the robot, which starts',
}
"""The parts of a response time, in the order of ``RecordedTask.response_parts_s``."""

TOLD = (
    ' Told to expect: the median of the responses that clients were told when their tasks were '
    'accepted; nine of ten promises should be kept.'
)

LINE_COLORS = 6
"""So many runs are told apart by the colors of their lines."""


def headline(runs: Sequence[Run]) -> str:
    """Return cards with the main figures of the first run, compared to those of the second."""
    first = figures(runs[0].tasks)
    other = figures(runs[1].tasks) if len(runs) > 1 else None
    label = runs[1].label if len(runs) > 1 else ''

    def card(title: str, name: str, show: Callable[[Figures], str], note: str = '') -> str:
        compared = ''
        if other is not None:
            compared = f'<p class="other">{e(label)}: <b>{e(show(other))}</b></p>'
        badge = f'<span class="badge">{e(note)}</span>' if note else ''
        return (
            f'<div class="card" data-figure="{e(name)}"><p class="title">{e(title)}</p>'
            f'<p class="value">{e(show(first))}{badge}</p>{compared}</div>'
        )

    def times(show: Callable[[Figures], float]) -> str:
        return _times(show(other), show(first)) if other is not None else ''

    cards = (
        card(
            'median response time',
            'response',
            lambda one: seconds(one.median_response_s),
            times(lambda one: one.median_response_s),
        ),
        card(
            'median waiting time',
            'waiting',
            lambda one: seconds(one.median_waiting_s),
            times(lambda one: one.median_waiting_s),
        ),
        card(
            f'mean utility, of {number(first.best_utility)} at most',
            'utility',
            lambda one: number(one.mean_utility),
        ),
        card(
            'robots that acted in time',
            'deadlines',
            lambda one: f'{one.tasks - one.late} of {one.tasks}',
        ),
    )
    return f'<div class="cards">{"".join(cards)}</div>'


def _times(other: float, first: float) -> str:
    if not (math.isfinite(other) and math.isfinite(first) and first > 0 and other > 0):
        return ''
    ratio = f'{max(other / first, first / other):.1f}'
    if ratio == '1.0':
        return ''
    return f'{ratio}x {"shorter" if other > first else "longer"}'


def reasons(runs: Sequence[Run]) -> str:
    """Return the section that explains the response times."""
    found = [figures(run.tasks) for run in runs]
    longest = max((sum(filter(math.isfinite, one.parts_s)) for one in found), default=0.0)
    bars = ''.join(
        _parts_bar(run.label, one, longest) for run, one in zip(runs, found, strict=True)
    )
    keys = ''.join(
        f'<li class="{name}">{text}</li>'
        for index, (name, text) in enumerate(PARTS.items())
        if any(one.parts_s[index] > 0.0005 for one in found)
    )
    facts = ''.join(f'<li>{fact}</li>' for fact in _facts(runs, found))
    return (
        '<p>A robot can act as soon as its first segment is there. '
        'The mean response time of a task, in its parts:</p>'
        f'<div class="parts">{bars}</div>'
        f'<ul class="key">{keys}</ul>'
        f'<ul class="facts">{facts}</ul>'
    )


def _parts_bar(label: str, one: Figures, longest_s: float) -> str:
    pieces = []
    for name, part_s in zip(PARTS, one.parts_s, strict=True):
        if math.isfinite(part_s) and longest_s > 0:
            width = 100 * part_s / longest_s
            pieces.append(
                f'<span class="{name}" style="width:{width:.2f}%" title="{e(seconds(part_s))}">'
                f'{e(seconds(part_s))}</span>'
            )
    total = seconds(sum(one.parts_s))
    return (
        f'<div class="bar"><span class="name">{e(label)}</span>'
        f'<span class="track">{"".join(pieces)}</span><span class="total">{e(total)}</span></div>'
    )


def _facts(runs: Sequence[Run], found: Sequence[Figures]) -> list[str]:
    facts = [
        f'<b>{e(run.label)}</b>: what a robot waits for first has a median of '
        f'{number(one.first_tokens, 0)} tokens ({seconds(one.first_generation_s)} of engine '
        f'time); its whole plan has {number(one.whole_tokens, 0)} '
        f'({seconds(one.whole_generation_s)}).'
        for run, one in zip(runs, found, strict=True)
        if math.isfinite(one.first_tokens)
    ]
    if len(runs) > 1 and found[0].parts_s[1] < found[1].parts_s[1]:
        facts.append(
            'A generation that has given its robot something to do lets others go first, so a '
            f'task waits {seconds(found[0].parts_s[1])} for the engine on average instead of '
            f'{seconds(found[1].parts_s[1])}.'
        )
    return facts


def kinds_table(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the table of response, waiting and utility per kind of task, row by row."""
    kinds = [by_kind(run) for run in runs]
    names = list(dict.fromkeys(name for one in kinds for name in one))
    columns: list[tuple[str, Callable[[Figures], str]]] = [
        ('response', lambda one: seconds(one.median_response_s)),
        ('waiting', lambda one: seconds(one.median_waiting_s)),
        ('utility', lambda one: number(one.mean_utility)),
        ('late', lambda one: str(one.late)),
    ]
    if any(one.judged for some in kinds for one in some.values()):
        columns.append(('succeeded by the world', _by_world))
    told = any(math.isfinite(one.told_s) for some in kinds for one in some.values())
    if told:
        columns[1:1] = [
            ('told to expect', lambda one: seconds(one.told_s)),
            ('promises kept', lambda one: _percent(one.kept)),
        ]
    head = ''.join(f'<th colspan="{len(runs)}" class="group">{title}</th>' for title, _ in columns)
    labels = ''.join(
        f'<th class="{"first" if index == 0 else ""}">{e(run.label)}</th>'
        for _ in columns
        for index, run in enumerate(runs)
    )
    yield (
        '<div class="scroll"><table><thead>'
        f'<tr><th rowspan="2">kind of task</th><th rowspan="2">tasks</th>{head}</tr>'
        f'<tr>{labels}</tr></thead><tbody>'
    )
    for name in names:
        cells = ''
        for _, show in columns:
            for index, one in enumerate(kinds):
                text = show(one[name]) if name in one else NOTHING
                cells += f'<td class="{"first" if index == 0 else ""}">{e(text)}</td>'
        some = next(one[name] for one in kinds if name in one)
        urgent = ' <span class="urgent">urgent</span>' if some.urgent else ''
        title = f'{e(kind_name(name))}{urgent}'
        yield f'<tr><th scope="row">{title}</th><td>{some.tasks}</td>{cells}</tr>'
    yield (
        '</tbody></table></div>'
        '<p class="note">Medians of response and waiting times, means of utility. '
        'Late: the robot started after the expected response time of its task, or never.'
        f'{TOLD if told else ""}</p>'
    )


def _by_world(one: Figures) -> str:
    return f'{one.by_world} of {one.judged}' if one.judged else NOTHING


def _percent(share: float) -> str:
    return f'{100 * share:.0f} %' if math.isfinite(share) else NOTHING


def percentiles_table(runs: Sequence[Run]) -> str:
    """Return the table of percentiles of response and waiting times."""
    shares = ((0.5, '50 %'), (0.9, '90 %'), (0.95, '95 %'), (0.99, '99 %'), (1.0, 'longest'))
    head = ''.join(f'<th>{title}</th>' for _, title in shares)
    rows = ''
    for what in ('response', 'waiting'):
        for run in runs:
            found = figures(run.tasks)
            values = found.responses_s if what == 'response' else found.waitings_s
            cells = ''.join(f'<td>{e(seconds(percentile(values, s)))}</td>' for s, _ in shares)
            rows += f'<tr><th scope="row">{what} time, {e(run.label)}</th>{cells}</tr>'
    return (
        f'<div class="scroll"><table><thead><tr><th></th>{head}</tr></thead>'
        f'<tbody>{rows}</tbody></table></div>'
    )


def distribution(runs: Sequence[Run]) -> str:
    """Return an SVG of the share of tasks whose robots had started, over time."""
    found = [sorted(figures(run.tasks).responses_s) for run in runs]
    longest_s = max((values[-1] for values in found if values), default=0.0)
    if longest_s <= 0:
        return ''
    width, height, left, bottom, top = 640, 250, 72, 34, 12
    limit_s = longest_s * 1.04

    def x(value_s: float) -> float:
        return left + (width - left - 12) * value_s / limit_s

    def y(share: float) -> float:
        return top + (height - top - bottom) * (1 - share)

    parts = [
        f'<line class="grid" x1="{left}" x2="{width - 12}" y1="{y(share):.1f}" '
        f'y2="{y(share):.1f}"/><text x="{left - 8}" y="{y(share):.1f}" '
        f'text-anchor="end" dominant-baseline="central">{share * 100:.0f} %</text>'
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    step_s = _nice_step(limit_s / 6)
    for index in range(int(limit_s / step_s) + 1):
        at_s = index * step_s
        parts.append(
            f'<text x="{x(at_s):.1f}" y="{height - 12}" text-anchor="middle">{at_s:g} s</text>'
        )
    for index, values in enumerate(found):
        points = [f'M{x(0):.1f},{y(0):.1f}']
        for count, value_s in enumerate(values, 1):
            points.append(f'H{x(value_s):.1f}V{y(count / len(runs[index].tasks)):.1f}')
        points.append(f'H{width - 12}')
        parts.append(f'<path class="line run{index % LINE_COLORS}" d="{"".join(points)}"/>')
    key = ''.join(
        f'<li class="run{index % LINE_COLORS}">{e(run.label)}</li>'
        for index, run in enumerate(runs)
    )
    return (
        f'<figure><svg class="chart" viewBox="0 0 {width} {height}" role="img" '
        'aria-label="Share of tasks whose robots had started acting, over time since the task was '
        f'received">{"".join(parts)}</svg><ul class="key lines">{key}</ul>'
        '<figcaption>Share of tasks whose robots had started acting, by time since the task was '
        'received</figcaption></figure>'
    )


def tasks_table(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the table of every task, row by row."""
    yield (
        '<div class="scroll tall"><table><thead><tr><th>run</th><th>received</th><th>robot</th>'
        '<th>kind</th><th>instruction</th><th>response</th><th>waiting</th><th>execution</th>'
        '<th>utility</th><th>tokens</th><th>result</th></tr></thead><tbody>'
    )
    for index, run in enumerate(runs):
        for place, task in enumerate(run.tasks):
            yield _task_row(run, task, f'{index} {place}')
    yield '</tbody></table></div>'


def _task_row(run: Run, task: RecordedTask, name: str) -> str:
    response = seconds(math.nan if task.response_s is None else task.response_s)
    if task.succeeded:
        result = 'succeeded'
    elif task.ended_s is None:
        result = 'had not ended'
    else:
        result = f'error {task.error_code}: {task.error}'
    if task.world_verdict is not None:
        by_world = 'succeeded' if task.world_verdict.succeeded else 'failed'
        result += f'; by the world {by_world}: {task.world_verdict.why}'
    cells = (
        run.label, seconds(task.received_s), task.robot, kind_name(task.kind), task.instruction,
        response, seconds(task.waiting_s), seconds(task.execution_s), number(task.utility),
        task.tokens, result,
    )  # fmt: skip
    late = ' class="late"' if task.late else ''
    return f'<tr{late} data-task="{name}">{"".join(f"<td>{e(cell)}</td>" for cell in cells)}</tr>'


def _nice_step(least: float) -> float:
    scale = 10 ** math.floor(math.log10(least)) if least > 0 else 1.0
    return next(factor * scale for factor in (1, 2, 5, 10) if factor * scale >= least * 0.999)
