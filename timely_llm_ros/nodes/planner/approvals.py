"""Shows which segments wait for approval, and takes what people decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from builtin_interfaces.msg import Time

from timely_llm_ros.errors import ShutdownError, TimelyError
from timely_llm_ros.msg import PendingApproval, PendingApprovals
from timely_llm_ros.planner import ApprovalAsked, ApprovalEnded
from timely_llm_ros.ros import STATE_QOS, create_deferred_service
from timely_llm_ros.ros.conversions import uuid_message, uuid_text
from timely_llm_ros.srv import DecideApproval

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.node import Node

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.planner import Planner, PlannerEvent
    from timely_llm_ros.ros import RosThread


class ApprovalServer:
    """Publishes ``pending_approvals`` and serves ``decide_approval``. Used on the loop's thread.

    Args:
        node: The planner's node.
        ros: Its thread.
        clock: The planner's.
    """

    def __init__(self, node: Node, ros: RosThread, clock: Clock) -> None:
        self.planner: Planner | None = None
        """The planner whose segments they are."""
        self._ros, self._clock, self._stamps = ros, clock, node.get_clock()
        self._pending = node.create_publisher(PendingApprovals, 'pending_approvals', STATE_QOS)
        self._pending.publish(PendingApprovals())
        create_deferred_service(node, DecideApproval, 'decide_approval', self._on_decision)

    def on_planner_event(self, event: PlannerEvent) -> None:
        """Tell what waits, where that has changed."""
        if not isinstance(event, ApprovalAsked | ApprovalEnded) or self.planner is None:
            return
        now = self._stamps.now()
        since_s = now.nanoseconds / 1e9 - self._clock.now()
        pending = self.planner.approvals.pending
        message = PendingApprovals(approvals=[_message(asked, since_s) for asked in pending])
        message.header.stamp = now.to_msg()
        self._pending.publish(message)

    def _decide(self, request: Any, send: Callable[[Any], None]) -> None:
        response = DecideApproval.Response(success=True)
        try:
            if self.planner is None:
                raise ShutdownError('the planner is not active')
            self.planner.approvals.decide(
                uuid_text(request.plan_id),
                request.segment,
                approves=request.approve,
                who=request.who[:64],
                reason=request.reason[:400],
            )
        except TimelyError as err:
            response = DecideApproval.Response(message=str(err))
        self._ros.call(send, response)

    # On the ROS thread

    def _on_decision(self, request: Any, send: Callable[[Any], None]) -> None:
        self._ros.call_loop(self._decide, request, send)


def _message(asked: ApprovalAsked, since_s: float) -> PendingApproval:
    """Return what is asked; ``since_s`` is when the planner's clock read 0 (s, ROS time)."""
    whole, part = divmod(since_s + asked.until_s, 1.0)
    return PendingApproval(
        plan_id=uuid_message(asked.task_id),
        segment=asked.segment,
        robot=asked.robot,
        client=asked.task.client,
        instruction=asked.task.instruction,
        text=asked.text,
        skills=list(asked.skills),
        risk=asked.risk,
        until=Time(sec=int(whole), nanosec=int(part * 1e9)),
    )
