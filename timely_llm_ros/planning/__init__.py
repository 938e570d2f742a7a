"""The parts of the planner: tasks and results, events, timelines, and one task's life."""

from __future__ import annotations

from timely_llm_ros.planning.background_lane import (
    BackgroundHandle,
    BackgroundResult,
    BackgroundTask,
)
from timely_llm_ros.planning.events import (
    CallStarted,
    PhaseChanged,
    PlannerEvent,
    SegmentEnded,
    SegmentReady,
    SegmentStarted,
    TaskAccepted,
    TaskEnded,
)
from timely_llm_ros.planning.task import (
    OverrunStrategy,
    Task,
    TaskFeedback,
    TaskPhase,
    TaskResult,
    TaskStatus,
    WhenBusy,
)

__all__ = [
    'BackgroundHandle',
    'BackgroundResult',
    'BackgroundTask',
    'CallStarted',
    'OverrunStrategy',
    'PhaseChanged',
    'PlannerEvent',
    'SegmentEnded',
    'SegmentReady',
    'SegmentStarted',
    'Task',
    'TaskAccepted',
    'TaskEnded',
    'TaskFeedback',
    'TaskPhase',
    'TaskResult',
    'TaskStatus',
    'WhenBusy',
]
