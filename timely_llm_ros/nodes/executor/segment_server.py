"""The action by which planners reach all robots of an executor.

One for a program and not for a robot: DDS compares every endpoint with every other, so what each
robot has of them decides how many robots a fleet may have.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rclpy.action import GoalResponse

from timely_llm_ros.action import ExecuteSegment
from timely_llm_ros.errors import Ending
from timely_llm_ros.execution import SegmentCode, SegmentOutcome
from timely_llm_ros.ros import DeferredActionServer
from timely_llm_ros.ros.conversions import outcome_message, progress_message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rclpy.action.server import ServerGoalHandle
    from rclpy.node import Node

    from timely_llm_ros.execution import SegmentProgress
    from timely_llm_ros.ros import RosThread

_logger = logging.getLogger(__name__)

INTRODUCTION_S = 0.5
"""How long a segment waits for the first heartbeat of its planner (s): discovery has no order."""


@dataclass(slots=True, eq=False)
class Taken:
    """A goal that was taken. ``goal`` is there once rclpy has accepted it; ROS thread only."""

    asked: ExecuteSegment.Goal
    known_by_s: float
    """On the loop's clock; by then its planner must have been heard."""
    goal: ServerGoalHandle | None = None
    dropped: Ending | None = None
    """Why it must not begin any more; loop's thread only."""


class SegmentTaker(Protocol):
    """One robot, for which goals come."""

    robot: str

    @property
    def gid(self) -> bytes:
        """The identity by which planners mean its executor; from any thread."""
        ...

    def take(self, taken: Taken) -> None:
        """Do what a goal asks for; on the loop's thread."""
        ...

    def cancel(self, taken: Taken) -> None:
        """Give up what a goal asks for; on the loop's thread."""
        ...


class SegmentServer:
    """Takes goals for the robots of one executor, and tells how they go and end.

    Args:
        node: The executor's node.
        ros: Its thread.
        first: Name of the first robot, which the action bears.
        result_timeout_s: How long a segment's result is kept (s).
    """

    def __init__(self, node: Node, ros: RosThread, first: str, *, result_timeout_s: int) -> None:
        self._node, self._ros = node, ros
        self._result_timeout_s = result_timeout_s
        self.name: str = node.resolve_service_name(f'{first}/execute_segment')
        """Full name of the action."""
        self._robots: dict[str, SegmentTaker] = {}
        self._by_goal: dict[bytes, Taken] = {}
        self._taking: Taken | None = None
        self._server: DeferredActionServer | None = None

    def open(self, servers: Iterable[SegmentTaker]) -> None:
        """Begin to serve these robots, before the node does."""
        self._robots = {server.robot: server for server in servers}
        self._server = DeferredActionServer(
            self._node,
            ExecuteSegment,
            self.name,
            on_goal=self._on_goal,
            on_accepted=self._on_accepted,
            on_cancel=self._on_cancel,
            result_timeout_s=self._result_timeout_s,
            is_addressed=self._is_addressed,
            client_of=lambda goal: bytes(goal.planner),
        )

    # On the loop's thread

    def tell(self, taken: Taken, progress: SegmentProgress) -> None:
        """Tell who sent a segment how far it is."""
        self._ros.call(self._feed_back, taken, progress_message(progress))

    def end(self, taken: Taken, outcome: SegmentOutcome) -> None:
        """Tell who sent a goal how it ended."""
        self._ros.call(self._finish, taken, outcome)

    def drop_early(self, robot: str) -> None:
        """Forget a robot's goals whose client is not discovered yet, without an answer."""
        if self._server is not None:
            self._server.drop_early(lambda goal: goal.segment.robot == robot and not goal.stop)

    # On the ROS thread

    def _is_addressed(self, goal: ExecuteSegment.Goal) -> bool:
        # Where two programs execute for one robot, the planner means the one that it listens to.
        server = self._robots.get(goal.segment.robot)
        return server is None or not goal.executor or bytes(goal.executor) == server.gid

    def _on_goal(self, goal: ExecuteSegment.Goal) -> GoalResponse:
        """Take every goal, and have it read and started before rclpy has told its client.

        A goal that is not valid is aborted once it is accepted: only a result can carry a reason.
        """
        taken = self._taking = Taken(goal, self._ros.loop.time() + INTRODUCTION_S)
        robot = goal.segment.robot
        if (server := self._robots.get(robot)) is None:
            problem = f'robot {robot[:80]!r}: expected one of {", ".join(self._robots)}'
            _logger.warning('segment refused: %s', problem)
            ending = Ending(SegmentCode.INVALID_SEGMENT, problem)
            self.end(taken, SegmentOutcome(goal.segment.index, ending))
        else:
            self._ros.call_loop(server.take, taken)
            self._ros.call(self._require_goal, taken, server)
        return GoalResponse.ACCEPT

    def _on_accepted(self, goal: ServerGoalHandle) -> None:
        taken, self._taking = self._taking, None
        if taken is None:
            raise RuntimeError('expected a goal to be taken before it is accepted')
        taken.goal = goal
        self._by_goal[bytes(goal.goal_id.uuid)] = taken

    def _require_goal(self, taken: Taken, server: SegmentTaker) -> None:
        """Stop a segment whose goal rclpy could not accept: nobody would hear of it."""
        if taken.goal is None:
            self._ros.call_loop(server.cancel, taken)

    def _on_cancel(self, goal: ServerGoalHandle) -> None:
        taken = self._by_goal.get(bytes(goal.goal_id.uuid))
        server = None if taken is None else self._robots.get(taken.asked.segment.robot)
        if server is not None:
            self._ros.call_loop(server.cancel, taken)

    def _feed_back(self, taken: Taken, message: ExecuteSegment.Feedback) -> None:
        if taken.goal is not None:
            taken.goal.publish_feedback(message)

    def _finish(self, taken: Taken, outcome: SegmentOutcome) -> None:
        if taken.goal is None or self._server is None:
            return
        self._by_goal.pop(bytes(taken.goal.goal_id.uuid), None)
        self._server.finish(taken.goal, outcome_message(outcome), succeeded=outcome.succeeded)
