"""What the page's script draws of a run, as JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lrtrace.report.text import MOST_LETTERS, json_for_script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lrtrace.run import RecordedSegment, RecordedTask, Run

MAX_SAMPLES = 1500
"""The engine's lane shows at most this many samples."""


def chart_data(run: Run, robots: list[str]) -> Iterator[str]:
    """Yield the data of a run's Gantt chart, whose rows are ``robots``, as JSON in pieces."""
    row = {robot: index for index, robot in enumerate(robots)}
    step = max(1, -(-len(run.samples) // MAX_SAMPLES))
    about = {
        'label': run.label[:MOST_LETTERS],
        'duration': round(run.duration_s, 3),
        'robots': [robot[:MOST_LETTERS] for robot in robots],
        'samples': [
            [round(sample.at_s, 3), sample.running, sample.queued, sample.suspended + sample.held]
            for sample in run.samples[::step]
        ],
    }
    yield json_for_script(about)[:-1] + ',"tasks":['
    for index, task in enumerate(run.tasks):
        yield (',' if index else '') + json_for_script(_task(task, row[task.robot]))
    yield ']}'


def _task(task: RecordedTask, row: int) -> dict[str, Any]:
    return {
        'row': row,
        'kind': task.kind[:MOST_LETTERS],
        'text': task.instruction[:MOST_LETTERS],
        'at': round(task.received_s, 4),
        'free': round(task.free_s, 4),
        'due': round(task.deadline_s, 4),
        'end': _rounded(task.ended_s),
        'urgent': task.urgent,
        'late': task.late,
        'ok': task.succeeded,
        'error': task.error[:MOST_LETTERS],
        'response': _rounded(task.response_s),
        'utility': round(task.utility, 3),
        'segments': [_segment(segment) for segment in task.ordered_segments],
    }


def _segment(segment: RecordedSegment) -> list[Any]:
    return [
        _rounded(segment.generated_s),
        round(segment.generation_s, 4),
        _rounded(segment.started_s),
        _rounded(segment.ended_s),
        segment.text[:MOST_LETTERS].strip().rstrip(';'),
        segment.tokens,
        segment.error[:MOST_LETTERS],
    ]


def _rounded(value_s: float | None) -> float | None:
    return None if value_s is None else round(value_s, 4)
