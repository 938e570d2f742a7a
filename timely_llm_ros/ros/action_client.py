"""An action client that forgets a goal when it is over."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from rclpy.action import ActionClient

from timely_llm_ros.ros.topics import FEEDBACK_QOS, GOALS_QOS

if TYPE_CHECKING:
    from rclpy.node import Node
    from unique_identifier_msgs.msg import UUID

_logger = logging.getLogger(__name__)


class GoalClient(ActionClient):  # type: ignore[misc]
    """rclpy's client without its leaks, and for bursts of goals. Used on the ROS thread only."""

    # For every goal that it sends, rclpy 9.1 registers two futures and completes one; it would
    # look through all those left over at each message that comes. It also keeps the feedback
    # callback of every goal that has no result, and with it whatever the callback holds.

    def __init__(self, node: Node, action_type: Any, name: str) -> None:
        self._registered: list[Any] | None = None
        """The futures of a goal that is being sent."""
        self._doubled = False
        super().__init__(
            node,
            action_type,
            name,
            goal_service_qos_profile=GOALS_QOS,
            result_service_qos_profile=GOALS_QOS,
            cancel_service_qos_profile=GOALS_QOS,
            feedback_sub_qos_profile=FEEDBACK_QOS,
        )

    def add_future(self, future: Any) -> None:
        """Register a future with the executor."""
        if self._registered is not None:
            self._registered.append(future)
        super().add_future(future)

    def send_goal_async(self, *arguments: Any, **options: Any) -> Any:
        """Send a goal; return the future of its acceptance."""
        registered: list[Any] = []
        self._registered = registered
        response = super().send_goal_async(*arguments, **options)
        self._registered = None
        for future in registered:
            if future is not response:
                self.remove_future(future)
        response.add_done_callback(self._forget_refused)
        return response

    def forget(self, goal_id: UUID) -> None:
        """Expect nothing more of a goal that was accepted, since its server is gone."""
        self._feedback_callbacks.pop(bytes(goal_id.uuid), None)
        ids = self._result_sequence_number_to_goal_id
        for number in [number for number, known in ids.items() if known == goal_id]:
            del ids[number]
            self.remove_future(self._pending_result_requests.pop(number))

    def _forget_refused(self, response: Any) -> None:
        handle = response.result()
        if handle is not None and not handle.accepted:
            self._feedback_callbacks.pop(bytes(handle.goal_id.uuid), None)

    async def execute(self, taken_data: Any) -> None:
        """Take what has arrived. Where two servers have one name, the first answer counts.

        A fault is logged, for rclpy's executor would die of it.
        """
        waiting = {'goal': self._pending_goal_requests, 'result': self._pending_result_requests}
        for kind, requests in waiting.items():
            if kind in taken_data:
                request = requests.get(taken_data[kind][0])
                if request is None or request.done():
                    del taken_data[kind]
                    self._report_doubled()
        try:
            await super().execute(taken_data)
        except Exception:
            _logger.exception('action %s', self._action_name)

    def _report_doubled(self) -> None:
        if not self._doubled:
            self._doubled = True
            problem = 'an answer that nobody waits for: two servers have that name, or one is late'
            _logger.error('action %s: %s', self._action_name, problem)
