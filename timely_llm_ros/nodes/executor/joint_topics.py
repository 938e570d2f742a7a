"""A driver's link to joints: trajectories on one topic, joint states on another.

It has a context and a node of its own, so that a guard that serves no node can open it too.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from functools import partial
from typing import TYPE_CHECKING

from timely_llm_ros.drivers.trajectory import JointReading
from timely_llm_ros.processes import prepare_for_dds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rclpy.context import Context
    from rclpy.node import Node
    from sensor_msgs.msg import JointState

_logger = logging.getLogger(__name__)

ARRIVAL_LIMIT_S = 2.0
"""How long the last trajectory may take to arrive before the node is destroyed (s)."""


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
        self._node: Node | None = None
        self._context: Context | None = None
        self._thread: threading.Thread | None = None

    @property
    def readings(self) -> Mapping[str, JointReading]:
        """The latest reading of every joint that was heard of."""
        return self._readings

    @property
    def has_controller(self) -> bool:
        """Whether somebody subscribes to the trajectories."""
        return self._node is not None and self._commands.get_subscription_count() > 0

    async def open(self) -> None:
        """Make the node and begin to listen; no-op if it is open."""
        if self._node is not None:
            return
        import rclpy
        from rclpy.qos import QoSProfile, ReliabilityPolicy
        from rclpy.signals import SignalHandlerOptions
        from sensor_msgs.msg import JointState
        from trajectory_msgs.msg import JointTrajectory

        loop, self._news = asyncio.get_running_loop(), asyncio.Event()
        self._readings = {}
        self._context = rclpy.Context()
        prepare_for_dds()
        # The arguments of the program are its own node's.
        rclpy.init(args=[], context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._node = rclpy.create_node(
            f'{self._robot}_joints',
            context=self._context,
            namespace=self._namespace,
            use_global_arguments=False,
            enable_rosout=False,
            start_parameter_services=False,
        )
        self._commands = self._node.create_publisher(
            JointTrajectory, self._command_topic, QoSProfile(depth=1)
        )
        # Matches reliable and best-effort broadcasters; only the latest counts.
        latest = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        on_states = partial(self._on_states, loop, self._news)
        self._node.create_subscription(JointState, self._state_topic, on_states, latest)
        self._thread = threading.Thread(target=self._spin, name='joint topics', daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Destroy the node; no-op if it is not open."""
        node, thread, context = self._node, self._thread, self._context
        if node is None or thread is None or context is None:
            return
        from rclpy.duration import Duration

        self._node = self._thread = None
        loop = asyncio.get_running_loop()
        # A hold that was published just now would be lost with its publisher.
        limit = Duration(seconds=ARRIVAL_LIMIT_S)
        await loop.run_in_executor(None, self._commands.wait_for_all_acked, limit)
        context.try_shutdown()
        await loop.run_in_executor(None, thread.join)
        node.destroy_node()

    def command(self, positions: Mapping[str, float], duration_s: float) -> None:
        """Publish a trajectory of one point, to begin at once and end there at rest."""
        from rclpy.duration import Duration
        from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

        if self._node is None:
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

    def _on_states(
        self, loop: asyncio.AbstractEventLoop, news: asyncio.Event, message: JointState
    ) -> None:
        speeds = message.velocity if len(message.velocity) == len(message.name) else None
        joints = {
            name: (float(position), float(speeds[index]) if speeds is not None else 0.0)
            for index, (name, position) in enumerate(
                zip(message.name, message.position, strict=False)
            )
            if math.isfinite(position)
        }
        try:
            loop.call_soon_threadsafe(self._take, joints, news)
        except RuntimeError:
            # The program is at its end.
            return

    def _take(self, joints: dict[str, tuple[float, float]], news: asyncio.Event) -> None:
        now_s = asyncio.get_running_loop().time()
        for name, (position, speed) in joints.items():
            self._readings[name] = JointReading(
                position, speed if math.isfinite(speed) else 0.0, now_s
            )
        news.set()

    def _spin(self) -> None:
        from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor

        executor = SingleThreadedExecutor(context=self._context)
        executor.add_node(self._node)
        try:
            executor.spin()
        except ExternalShutdownException:
            return
        except Exception:
            _logger.exception('joint topics')
        finally:
            executor.shutdown()
