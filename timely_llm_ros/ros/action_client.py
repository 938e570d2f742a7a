"""An action client that forgets a goal when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rclpy.action import ActionClient

from timely_llm_ros.ros.topics import FEEDBACK_QOS, GOALS_QOS

if TYPE_CHECKING:
    from rclpy.node import Node


class GoalClient(ActionClient):  # type: ignore[misc]
    """rclpy's client without its leak, and for bursts of goals. Used on the ROS thread only.

    Args:
        node: The node.
        action_type: The generated action.
        name: Relative name.
    """

    # For every goal that it sends, rclpy 9.1 registers two futures and completes one; it would
    # look through all those left over at each message that comes.

    def __init__(self, node: Node, action_type: Any, name: str) -> None:
        self._registered: list[Any] = []
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
        self._registered.append(future)
        super().add_future(future)

    def send_goal_async(self, *arguments: Any, **options: Any) -> Any:
        """Send a goal; return the future of its acceptance."""
        self._registered.clear()
        response = super().send_goal_async(*arguments, **options)
        for future in self._registered:
            if future is not response:
                self.remove_future(future)
        self._registered.clear()
        return response
