"""Makes the records of a run from the planner's own events, as ``timeline`` does from a trace."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from lrtrace.run import CANCELED, SUCCEEDED, EngineSample, RecordedSegment, Run, note_busy_robots
from timely_llm_ros.engines import EngineStateChanged
from timely_llm_ros.planner import (
    SegmentEnded,
    SegmentReady,
    SegmentStarted,
    TaskAccepted,
    TaskEnded,
    TaskStatus,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lrtrace.run import RecordedTask
    from timely_llm_ros.engines import EngineEvent
    from timely_llm_ros.errors import TimelyError
    from timely_llm_ros.evaluation.what_if.recorded import ReplayedTask
    from timely_llm_ros.planner import PlannerEvent

_STATUS = {TaskStatus.SUCCEEDED: SUCCEEDED, TaskStatus.CANCELED: CANCELED, TaskStatus.ABORTED: 6}
"""Numbers of ``action_msgs/GoalStatus``."""


class RunObserver:
    """Takes the events of a replay of these tasks and keeps what a report needs."""

    def __init__(self, tasks: Iterable[ReplayedTask]) -> None:
        self._recorded = {task.record.plan_id: task for task in tasks}
        self._found: dict[str, RecordedTask] = {}
        self._samples: list[EngineSample] = []
        self._start_s = 0.0

    def begin(self, start_s: float) -> None:
        """Count times from now on, and forget what the engine said while it loaded."""
        self._start_s = start_s
        self._samples.clear()

    def run(self, label: str) -> Run:
        """Return everything that was seen as a run."""
        tasks = sorted(self._found.values(), key=lambda task: task.received_s)
        note_busy_robots(tasks)
        return Run(
            label,
            tasks=tasks,
            samples=self._samples,
            duration_s=max((task.ended_s or 0.0 for task in tasks), default=0.0),
        )

    def refused(self, task: ReplayedTask, robot: str, error: TimelyError) -> None:
        """Note that the planner did not take a task."""
        record = self._new(task, robot, task.record.received_s)
        record.ended_s, record.status = record.received_s, _STATUS[TaskStatus.ABORTED]
        record.error_code, record.error = error.code, str(error)

    def on_planner_event(self, event: PlannerEvent) -> None:
        """Note what happened to a task."""
        at_s = event.at_s - self._start_s
        if isinstance(event, TaskAccepted):
            self._new(self._recorded[event.task_id], event.robot, event.received_s - self._start_s)
            return
        record = self._found[event.task_id]
        match event:
            case SegmentReady():
                segment = self._segment(record, event.segment.index)
                segment.text, segment.calls = self._words(event)
                segment.tokens = event.segment.tokens
                segment.generated_s = event.token_at_s - self._start_s
                segment.generation_s = event.generation_s
                segment.expected_execution_s = event.expected_execution_s
                segment.awaits_value = event.segment.awaits_value
            case SegmentStarted():
                self._segment(record, event.index).started_s = at_s
            case SegmentEnded():
                segment = self._segment(record, event.outcome.index)
                segment.ended_s, segment.error = at_s, event.outcome.ending.message
                segment.execution_s = event.outcome.execution_s
            case TaskEnded():
                result = event.result
                record.ended_s, record.status = at_s, _STATUS[result.status]
                record.error_code, record.error = result.ending.code, result.ending.message
                record.response_s, record.waiting_s = result.response_s, result.waiting_s
                record.execution_s, record.completion_s = result.execution_s, result.completion_s
                record.utility, record.tokens = result.utility, result.tokens

    def on_engine_event(self, event: EngineEvent) -> None:
        """Note the engine's state."""
        if isinstance(event, EngineStateChanged):
            state = event.state
            self._samples.append(
                EngineSample(
                    asyncio.get_running_loop().time() - self._start_s,
                    state.running,
                    state.suspended,
                    state.held,
                    state.queued,
                    state.kv_tokens,
                    state.step_s,
                )
            )

    def _words(self, event: SegmentReady) -> tuple[str, tuple[str, ...]]:
        """Return the text of a segment and of its calls: those that its shape stands for."""
        planned = self._recorded[event.task_id].segments
        # In mode whole_plan the only segment is the whole plan.
        parts = planned if event.segment.is_last else planned[event.segment.index :][:1]
        return ''.join(part.text for part in parts), tuple(
            call for part in parts for call in part.calls
        )

    def _new(self, task: ReplayedTask, robot: str, at_s: float) -> RecordedTask:
        record = replace(
            task.record,
            robot=robot,
            received_s=at_s,
            free_s=at_s,
            segments={},
            ended_s=None,
            status=0,
            error_code=0,
            error='',
            response_s=None,
            waiting_s=0.0,
            execution_s=0.0,
            completion_s=0.0,
            utility=0.0,
            tokens=0,
        )
        self._found[record.plan_id] = record
        return record

    @staticmethod
    def _segment(record: RecordedTask, index: int) -> RecordedSegment:
        return record.segments.setdefault(index, RecordedSegment(index))
