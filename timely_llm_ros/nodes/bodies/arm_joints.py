"""The topics of a simulated arm under ros2_control: trajectories in, joint states out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

if TYPE_CHECKING:
    from rclpy.node import Node

    from timely_llm_ros.ros import RosThread


class JointedBody(Protocol):
    """An arm. Used on the loop."""

    def follow(self, trajectory: Any) -> bool:
        """Begin a ``JointTrajectory``; return whether it was taken."""
        ...

    def joints(self) -> tuple[list[str], list[float], list[float]]:
        """Return names, positions (rad, m) and speeds (rad/s, m/s) of the joints."""
        ...


class ArmJoints:
    """The joints of one arm, by the topics that the driver ``trajectory`` has by default.

    Args:
        node: The node that has the topics.
        ros: The thread that serves it.
        robot: Name of the arm, which goes before the topics' names.
        arm: Follows the trajectories.
    """

    def __init__(self, node: Node, ros: RosThread, robot: str, arm: JointedBody) -> None:
        self._node, self._ros, self._arm = node, ros, arm
        self._states = node.create_publisher(JointState, f'{robot}/joint_states', 10)
        node.create_subscription(
            JointTrajectory,
            f'{robot}/joint_trajectory_controller/joint_trajectory',
            lambda message: ros.call_loop(arm.follow, message),
            1,
        )

    def tell(self) -> None:
        """Tell where the joints are; called on the loop, again and again."""
        names, positions, speeds = self._arm.joints()
        message = JointState(name=names, position=positions, velocity=speeds)
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._states.publish(message)
