"""An action server whose goals end when the program says so, without a coroutine that waits."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from rclpy.action import ActionServer, CancelResponse

from timely_llm_ros.ros.topics import FEEDBACK_QOS, GOALS_QOS

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.action import GoalResponse
    from rclpy.action.server import ServerGoalHandle
    from rclpy.node import Node

_logger = logging.getLogger(__name__)


class DeferredActionServer(ActionServer):  # type: ignore[misc]
    """Accepted goals are executing at once; ``finish`` ends them. Used on the ROS thread only.

    rclpy's own way, a callback that returns the result, would need a coroutine per goal, which
    its executors poll. No callback may wait.

    Args:
        node: The node.
        action_type: The generated action.
        name: Relative name.
        on_goal: Says whether to accept a goal.
        on_accepted: Takes an accepted goal, whose status is EXECUTING by then.
        on_cancel: Told that a client wants a goal cancelled, which is always accepted.
        is_addressed: Says whether a goal is for this server; others get no answer from it.
        result_timeout_s: How long a result is kept (s).
    """

    def __init__(
        self,
        node: Node,
        action_type: Any,
        name: str,
        *,
        on_goal: Callable[[Any], GoalResponse],
        on_accepted: Callable[[ServerGoalHandle], None],
        on_cancel: Callable[[ServerGoalHandle], None],
        result_timeout_s: int,
        is_addressed: Callable[[Any], bool] = lambda _: True,
    ) -> None:
        self._name, self._is_addressed = name, is_addressed

        def accept(goal: ServerGoalHandle) -> None:
            goal.execute()
            on_accepted(goal)

        def cancel(goal: ServerGoalHandle) -> CancelResponse:
            on_cancel(goal)
            return CancelResponse.ACCEPT

        super().__init__(
            node,
            action_type,
            name,
            execute_callback=_never,
            goal_callback=on_goal,
            handle_accepted_callback=accept,
            cancel_callback=cancel,
            goal_service_qos_profile=GOALS_QOS,
            result_service_qos_profile=GOALS_QOS,
            cancel_service_qos_profile=GOALS_QOS,
            feedback_pub_qos_profile=FEEDBACK_QOS,
            result_timeout=result_timeout_s,
        )

    async def execute(self, taken_data: Any) -> None:
        """Serve what has arrived; a fault is logged, for rclpy's executor would die of it."""
        if 'goal' in taken_data and not self._is_addressed(taken_data['goal'][1].goal):
            del taken_data['goal']
        try:
            await super().execute(taken_data)
        except Exception:
            _logger.exception('action %s', self._name)

    def notify_execute(self, goal_handle: ServerGoalHandle, execute_callback: object) -> None:
        """Do nothing: the goal's execution is not rclpy's."""

    def finish(self, goal: ServerGoalHandle, result: object, *, succeeded: bool) -> None:
        """End a goal: SUCCEEDED, CANCELED if a client asked for that, or ABORTED."""
        if not goal.is_active:
            return
        if succeeded:
            goal.succeed()
        elif goal.is_cancel_requested:
            goal.canceled()
        else:
            goal.abort()
        super().notify_execute(goal, lambda _: result)


def _never(_: ServerGoalHandle) -> None:
    raise AssertionError('goals are ended by finish()')
