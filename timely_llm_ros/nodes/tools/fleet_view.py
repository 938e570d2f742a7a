"""Tells what a fleet does, as plain JSON values, from the topics of the planner and the robots.

Each value has an ``event``: ``task``, ``segment``, ``scheduler`` or ``robot``; the demo's
``fleet_model`` takes them as they are.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from timely_llm_ros.msg import RobotState, SchedulerState, SkillSegment, TaskEvent
from timely_llm_ros.ros import EVENTS_QOS, SEGMENTS_QOS, STATE_QOS, TASK_EVENTS_TOPIC
from timely_llm_ros.ros.conversions import ROBOT_PHASES, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rclpy.node import Node

_TASK_EVENTS = {
    TaskEvent.ACCEPTED: 'accepted',
    TaskEvent.REFUSED: 'refused',
    TaskEvent.SEGMENT_STARTED: 'segment_started',
    TaskEvent.SEGMENT_ENDED: 'segment_ended',
    TaskEvent.ENDED: 'ended',
}
_ROBOT_PHASES = {number: name for name, number in ROBOT_PHASES.items()}

_SCHEDULER_FIELDS = (
    'engine', 'mode', 'policy', 'running', 'suspended', 'held', 'queued', 'kv_tokens',
    'kv_capacity_tokens',
)  # fmt: skip


class FleetView:
    """Listens to a planner and robots, and calls ``tell`` with every event, on the ROS thread."""

    def __init__(
        self, node: Node, tell: Callable[[dict[str, Any]], None], robots: Sequence[str]
    ) -> None:
        self._tell = tell
        self._states: dict[str, tuple[object, ...]] = {}
        node.create_subscription(TaskEvent, TASK_EVENTS_TOPIC, self._on_task, EVENTS_QOS)
        node.create_subscription(SchedulerState, 'scheduler_state', self._on_scheduler, STATE_QOS)
        for robot in robots:
            node.create_subscription(
                SkillSegment, f'{robot}/skill_segments', self._on_segment, SEGMENTS_QOS
            )
            node.create_subscription(
                RobotState, f'{robot}/robot_state', partial(self._on_robot, robot), 10
            )

    def _on_task(self, message: TaskEvent) -> None:
        self._tell(
            {
                'event': 'task',
                'what': _TASK_EVENTS.get(message.event, 'unknown'),
                'plan': _plan(message),
                'robot': message.robot,
                'kind': message.task_kind,
                'instruction': message.instruction,
                'expected_response_s': seconds(message.utility.expected_response),
                'slope_per_s': message.utility.slope_per_s,
                'peak': message.utility.peak,
                'at_s': seconds(message.at),
                'segment': message.segment,
                'status': message.status,
                'error': message.error_msg,
                'response_s': seconds(message.response_time),
                'waiting_s': seconds(message.waiting_time),
                'utility': message.achieved_utility,
                'time_budget_s': seconds(message.time_budget),
                'eviction_ratio': message.eviction_ratio,
                'predicted_s': seconds(message.predicted_generation_time),
                'worst_s': seconds(message.worst_generation_time),
            }
        )

    def _on_segment(self, message: SkillSegment) -> None:
        self._tell(
            {
                'event': 'segment',
                'plan': _plan(message),
                'robot': message.robot,
                'index': message.index,
                'text': message.text,
                'stamp_s': message.header.stamp.sec + message.header.stamp.nanosec / 1e9,
            }
        )

    def _on_scheduler(self, message: SchedulerState) -> None:
        told = {name: getattr(message, name) for name in _SCHEDULER_FIELDS}
        self._tell({'event': 'scheduler', **told, 'step_s': seconds(message.step_time)})

    def _on_robot(self, robot: str, message: RobotState) -> None:
        # States come ten times a second from every robot; only changes are told.
        state = (message.phase, message.call, message.segment, message.queued_segments)
        if self._states.get(robot) == state:
            return
        self._states[robot] = state
        self._tell(
            {
                'event': 'robot',
                'robot': robot,
                'phase': _ROBOT_PHASES.get(message.phase, 'unknown'),
                'plan': _plan(message),
                'segment': message.segment,
                'call': message.call,
                'queued_segments': message.queued_segments,
            }
        )


def _plan(message: Any) -> str:
    return bytes(message.plan_id.uuid).hex()
