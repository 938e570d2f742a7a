"""What the page's script draws of a run, as JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lrtrace.run import RecordedSegment, RecordedTask, Run

MAX_SAMPLES = 1500
"""The engine's lane shows at most this many samples."""


def chart_data(run: Run, robots: list[str]) -> dict[str, Any]:
    """Return the data of a run's Gantt chart, whose rows are ``robots``."""
    row = {robot: index for index, robot in enumerate(robots)}
    step = max(1, -(-len(run.samples) // MAX_SAMPLES))
    return {
        'label': run.label,
        'duration': round(run.duration_s, 3),
        'robots': robots,
        'tasks': [_task(task, row[task.robot]) for task in run.tasks],
        'samples': [
            [round(sample.at_s, 3), sample.running, sample.queued, sample.suspended + sample.held]
            for sample in run.samples[::step]
        ],
    }


def _task(task: RecordedTask, row: int) -> dict[str, Any]:
    return {
        'row': row,
        'kind': task.kind,
        'text': task.instruction,
        'at': round(task.received_s, 4),
        'free': round(task.free_s, 4),
        'due': round(task.deadline_s, 4),
        'end': _rounded(task.ended_s),
        'urgent': task.urgent,
        'late': task.late,
        'ok': task.succeeded,
        'error': task.error,
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
        segment.text.strip().rstrip(';'),
        segment.tokens,
        segment.error,
    ]


def _rounded(value_s: float | None) -> float | None:
    return None if value_s is None else round(value_s, 4)
