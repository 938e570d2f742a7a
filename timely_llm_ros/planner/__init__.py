"""The planner: tasks in, segments out; asyncio, no ROS."""

from timely_llm_ros.planner.background_tasks import BackgroundHandle, BackgroundTask
from timely_llm_ros.planner.config import PlannerConfig
from timely_llm_ros.planner.events import (
    ApprovalAsked,
    ApprovalEnded,
    CallStarted,
    PhaseChanged,
    PlannerEvent,
    SegmentEnded,
    SegmentReady,
    SegmentStarted,
    TaskAccepted,
    TaskEnded,
)
from timely_llm_ros.planner.gate import client_weights
from timely_llm_ros.planner.planner import Planner
from timely_llm_ros.planner.prepared_task import PreparedTask
from timely_llm_ros.planner.task import Task, TaskFeedback, TaskPhase, TaskResult, TaskStatus
from timely_llm_ros.planner.task_handle import TaskHandle
from timely_llm_ros.planner.tries import Tries
from timely_llm_ros.planner.worth import AdmissionState, Expectation

__all__ = [
    'AdmissionState', 'ApprovalAsked', 'ApprovalEnded', 'BackgroundHandle', 'BackgroundTask',
    'CallStarted', 'Expectation', 'PhaseChanged', 'Planner', 'PlannerConfig',
    'PlannerEvent', 'PreparedTask', 'SegmentEnded', 'SegmentReady', 'SegmentStarted',
    'Task', 'TaskAccepted', 'TaskEnded', 'TaskFeedback', 'TaskHandle', 'TaskPhase', 'TaskResult',
    'TaskStatus', 'Tries', 'client_weights',
]  # fmt: skip
