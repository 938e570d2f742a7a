"""A driver's link to joints: trajectories on one topic, joint states on another."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from timely_llm_ros.drivers.trajectory import JointReading
from timely_llm_ros.nodes.executor.link_node import LinkNode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rclpy.node import Node
    from sensor_msgs.msg import JointState


class JointTopics:
    """The joints of one arm, by topics.

    Args:
        robot: Name of the robot.
        namespace: Namespace of its fleet, to which the topics' names are relative.
        command_topic: Where trajectories go; ``{robot}`` stands for the name of the robot.
        state_topic: Where joint states come from; likewise.
    """

    def __init__(self, robot: str, namespace: str, *, command_topic: str, state_topic: str) -> None:
        self._robot, self._namespace = robot, namespace
        self._command_topic = command_topic.replace('{robot}', robot)
        self._state_topic = state_topic.replace('{robot}', robot)
        self._readings: dict[str, JointReading] = {}
        self._news: asyncio.Event | None = None
        self._link: LinkNode | None = None

    @property
    def readings(self) -> Mapping[str, JointReading]:
        """The latest reading of every joint that was heard of."""
        return self._readings

    @property
    def has_controller(self) -> bool:
        """Whether somebody subscribes to the trajectories."""
        return self._link is not None and self._commands.get_subscription_count() > 0

    async def open(self) -> None:
        """Make the node and begin to listen; no-op if it is open."""
        if self._link is not None:
            return
        self._readings, self._news = {}, asyncio.Event()
        self._link = LinkNode(f'{self._robot}_joints', self._namespace, self._make)

    def _make(self, node: Node) -> None:
        from rclpy.qos import QoSProfile, ReliabilityPolicy
        from sensor_msgs.msg import JointState
        from trajectory_msgs.msg import JointTrajectory

        self._commands = node.create_publisher(
            JointTrajectory, self._command_topic, QoSProfile(depth=1)
        )
        # Matches reliable and best-effort broadcasters; only the latest counts.
        latest = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        node.create_subscription(JointState, self._state_topic, self._on_states, latest)

    async def close(self) -> None:
        """Destroy the node; no-op if it is not open."""
        link, self._link = self._link, None
        if link is not None:
            await link.close(self._commands)

    def command(self, positions: Mapping[str, float], duration_s: float) -> None:
        """Publish a trajectory of one point, to begin at once and end there at rest."""
        from rclpy.duration import Duration
        from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

        if self._link is None:
            return
        point = JointTrajectoryPoint(
            positions=list(positions.values()),
            velocities=[0.0] * len(positions),
            time_from_start=Duration(seconds=duration_s).to_msg(),
        )
        self._commands.publish(JointTrajectory(joint_names=list(positions), points=[point]))

    async def heard(self, limit_s: float) -> None:
        """Return once a new reading is there, after ``limit_s`` (s) in any case."""
        if self._news is None:
            return
        self._news.clear()
        try:
            async with asyncio.timeout(limit_s):
                await self._news.wait()
        except TimeoutError:
            return

    # On the thread of the topics

    def _on_states(self, message: JointState) -> None:
        speeds = message.velocity if len(message.velocity) == len(message.name) else None
        joints = {
            name: (float(position), float(speeds[index]) if speeds is not None else 0.0)
            for index, (name, position) in enumerate(
                zip(message.name, message.position, strict=False)
            )
            if math.isfinite(position)
        }
        if self._link is not None:
            self._link.call_loop(self._take, joints)

    # On the loop's thread

    def _take(self, joints: dict[str, tuple[float, float]]) -> None:
        now_s = asyncio.get_running_loop().time()
        for name, (position, speed) in joints.items():
            self._readings[name] = JointReading(
                position, speed if math.isfinite(speed) else 0.0, now_s
            )
        if self._news is not None:
            self._news.set()
