"""The topics of simulated bodies, and the interfaces of arms.

Whoever simulates them calls this; it knows nothing of how.
"""

from __future__ import annotations

import importlib.util
import math
from array import array
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from geometry_msgs.msg import Point, PoseStamped
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.time import Time
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image
from std_msgs.msg import Header, String

from timely_llm_ros.msg import Detections
from timely_llm_ros.nodes.bodies.arm_actions import ArmActions
from timely_llm_ros.nodes.bodies.arm_joints import ArmJoints
from timely_llm_ros.ros import run

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from timely_llm_ros.nodes.bodies.arm_actions import ArmBody
    from timely_llm_ros.nodes.bodies.arm_joints import JointedBody
    from timely_llm_ros.ros import RosThread

FRAME = 'world'
"""The frame of poses and things, which all robots share."""

_LATEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)

_CYLINDER, _CUBE, _LINES = 3, 1, 4
"""Shapes of ``visualization_msgs/Marker``."""


class ShownThing(NamedTuple):
    """One thing as a page or RViz shows it: its middle and its size (m).

    Where it has points (m, from its middle) it is the line through them, as wide as its size says.
    """

    name: str
    at_m: tuple[float, float, float]
    size_m: tuple[float, float, float]
    is_box: bool = False
    color: tuple[float, float, float] = (0.6, 0.6, 0.6)
    points_m: tuple[tuple[float, float, float], ...] = ()


class BodyTopics(Node):  # type: ignore[misc]
    """Publishes what simulated robots see and where they are, and what happens to them.

    These are ``pose``, ``detections`` and ``image`` of each, ``world_markers``, ``world_events``.

    Markers are published where visualization_msgs is installed. Methods are called from the loop.

    Args:
        ros: The thread that serves this node.
        robots: Names of the robots.
        on_picture: Called on the loop with the name of a robot that takes a picture.
        arms: Those of the robots that are arms: how each is moved by actions where MoveIt's types
            are installed, and how by trajectories.
        namespace: Of the fleet.
        clock: Whether it publishes ``/clock`` too, and stamps messages by it.
    """

    def __init__(
        self,
        ros: RosThread,
        robots: Iterable[str],
        on_picture: Callable[[str], None],
        arms: Mapping[str, tuple[ArmBody, JointedBody]],
        namespace: str,
        *,
        clock: bool = False,
    ) -> None:
        sim_time = Parameter('use_sim_time', value=clock)
        super().__init__('world', namespace=namespace, parameter_overrides=[sim_time])
        self._clock_topic = self.create_publisher(Clock, '/clock', _LATEST) if clock else None
        self._ros, self._on_picture = ros, on_picture
        self._poses, self._detections, self._pictures = {}, {}, {}
        for robot in robots:
            self._pictures[robot] = self.create_publisher(Image, f'{robot}/image', 1)
            self._poses[robot] = self.create_publisher(PoseStamped, f'{robot}/pose', _LATEST)
            self._detections[robot] = self.create_publisher(Detections, f'{robot}/detections', 1)
            self.create_subscription(
                Header, f'{robot}/take_picture', partial(self._hear_picture, robot), 10
            )
        self._actions = [
            ArmActions(self, ros, robot, arm)
            for robot, (arm, _) in arms.items()
            if ArmActions.there()
        ]
        self._joints = [ArmJoints(self, ros, robot, arm) for robot, (_, arm) in arms.items()]
        self._events = self.create_publisher(String, 'world_events', 100)
        self._markers = None
        if importlib.util.find_spec('visualization_msgs') is not None:
            kind = import_module('visualization_msgs.msg').MarkerArray
            self._markers = self.create_publisher(kind, 'world_markers', 1)

    def advance(self, now_s: float) -> None:
        """Tell the time (s) and where joints of arms are, and end the motions that have ended."""
        if self._clock_topic is not None:
            self._clock_topic.publish(Clock(clock=Time(seconds=now_s).to_msg()))
        for joints in self._joints:
            joints.tell()
        for actions in self._actions:
            actions.advance()

    def tell_pose(self, robot: str, at_m: Sequence[float], heading_rad: float) -> None:
        """Tell where a robot is in the room."""
        message = PoseStamped()
        message.header = self._header(FRAME)
        place, turned = message.pose.position, message.pose.orientation
        place.x, place.y, place.z = map(float, at_m)
        turned.z, turned.w = math.sin(heading_rad / 2), math.cos(heading_rad / 2)
        self._poses[robot].publish(message)

    def tell_detections(
        self, robot: str, seen: Sequence[tuple[str, float, tuple[float, float, float]]]
    ) -> None:
        """Tell what a robot sees: labels, scores and places from its start (m)."""
        message = Detections(header=self._header(''))
        message.labels = [label for label, _, _ in seen]
        message.scores = [float(score) for _, score, _ in seen]
        message.positions = [Point(x=x_m, y=y_m, z=z_m) for _, _, (x_m, y_m, z_m) in seen]
        self._detections[robot].publish(message)

    def wants_picture(self, robot: str) -> bool:
        """Return whether anybody subscribes to a robot's pictures."""
        return bool(self._pictures[robot].get_subscription_count())

    def tell_picture(self, robot: str, pixels: bytes, width: int) -> None:
        """Show a picture that a robot took: bytes of red, green, blue, row by row from the top."""
        row = 3 * width
        message = Image(height=len(pixels) // row, width=width, encoding='rgb8', step=row)
        message.header = self._header(f'{robot}/camera')
        message.data = array('B', pixels)
        self._pictures[robot].publish(message)

    def tell_things(self, things: Iterable[ShownThing]) -> None:
        """Tell where the things of the room are."""
        if self._markers is None:
            return
        kinds: Any = import_module('visualization_msgs.msg')
        message = kinds.MarkerArray()
        for number, thing in enumerate(things):
            marker = kinds.Marker(ns='world', id=number, text=thing.name)
            marker.header = self._header(FRAME)
            marker.type = _LINES if thing.points_m else _CUBE if thing.is_box else _CYLINDER
            marker.points = [Point(x=x_m, y=y_m, z=z_m) for x_m, y_m, z_m in thing.points_m]
            place, size, color = marker.pose.position, marker.scale, marker.color
            place.x, place.y, place.z = thing.at_m
            size.x, size.y, size.z = thing.size_m
            color.r, color.g, color.b = thing.color
            color.a = 1.0
            message.markers.append(marker)
        self._markers.publish(message)

    def tell_event(self, line: str) -> None:
        """Tell what happened, as a line of JSON."""
        self._events.publish(String(data=line))

    def _header(self, frame: str) -> Header:
        return Header(stamp=self.get_clock().now().to_msg(), frame_id=frame)

    # On the ROS thread

    def _hear_picture(self, robot: str, _message: Header) -> None:
        self._ros.call_loop(self._on_picture, robot)


def serve_bodies(
    robots: Sequence[str],
    on_picture: Callable[[str], None],
    serve: Callable[[BodyTopics, asyncio.Event], Awaitable[int]],
    arms: Mapping[str, tuple[ArmBody, JointedBody]],
    namespace: str = '',
    *,
    clock: bool = False,
) -> int:
    """Run what simulates bodies until SIGINT or SIGTERM; return the exit code.

    Args:
        robots: Names of the robots.
        on_picture: Called with the name of a robot that takes a picture.
        serve: Simulates them, until the event is set.
        arms: Those of the robots that are arms, see :class:`BodyTopics`.
        namespace: Of the fleet.
        clock: Whether their time is published, see :class:`BodyTopics`.
    """

    async def start(ros: RosThread, stop: asyncio.Event) -> int:
        topics = BodyTopics(ros, robots, on_picture, arms, namespace, clock=clock)
        ros.start(topics)
        return await serve(topics, stop)

    return run('world', ['world'], start)
