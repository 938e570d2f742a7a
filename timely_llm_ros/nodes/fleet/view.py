"""Tells what a fleet does, as the events of ``timely_llm_ros.window``, from topics."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rclpy.qos import DurabilityPolicy, QoSProfile

from timely_llm_ros.msg import PendingApprovals, RobotState, SchedulerState, SkillSegment, TaskEvent
from timely_llm_ros.ros import EVENTS_QOS, SEGMENTS_QOS, STATE_QOS, TASK_EVENTS_TOPIC
from timely_llm_ros.window import (
    robot_event,
    scheduler_event,
    segment_event,
    task_event,
    unapproved_event,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rclpy.node import Node

    from timely_llm_ros.window import Event

LAST_STATES_QOS = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Who comes late hears a robot's last state, and short calls that follow each other are all heard.
"""


class FleetView:
    """Listens to a planner and robots, and calls ``tell`` with every event, on the ROS thread."""

    def __init__(
        self, node: Node, tell: Callable[[Event], None], robots: Sequence[str] = ()
    ) -> None:
        self._node, self._tell = node, tell
        self._states: dict[str, Event] = {}
        self.robots: set[str] = set()
        """The robots that are watched."""
        node.create_subscription(TaskEvent, TASK_EVENTS_TOPIC, self._on_task, EVENTS_QOS)
        node.create_subscription(SchedulerState, 'scheduler_state', self._on_scheduler, STATE_QOS)
        node.create_subscription(
            PendingApprovals, 'pending_approvals', self._on_approvals, STATE_QOS
        )
        for robot in robots:
            self.watch(robot)

    def watch(self, robot: str) -> None:
        """Listen to one more robot; no-op if it is watched."""
        if robot in self.robots:
            return
        self.robots.add(robot)
        self._node.create_subscription(
            SkillSegment, f'{robot}/skill_segments', self._on_segment, SEGMENTS_QOS
        )
        hear = partial(self._on_robot, robot)
        self._node.create_subscription(RobotState, f'{robot}/robot_state', hear, LAST_STATES_QOS)

    def _on_task(self, message: TaskEvent) -> None:
        self._tell(task_event(message))

    def _on_segment(self, message: SkillSegment) -> None:
        self._tell(segment_event(message))

    def _on_scheduler(self, message: SchedulerState) -> None:
        self._tell(scheduler_event(message))

    def _on_approvals(self, message: PendingApprovals) -> None:
        self._tell(unapproved_event(message))

    def _on_robot(self, robot: str, message: RobotState) -> None:
        # States come ten times a second from every robot; only changes are told.
        event = robot_event(robot, message)
        if self._states.get(robot) != event:
            self._states[robot] = event
            self._tell(event)
