"""Finds the robots of a namespace and tells everything that a page shows of them."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import yaml
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import String

from timely_llm_ros.nodes.fleet import FleetView
from timely_llm_ros.ros import STATE_QOS, create_steady_timer, overridable
from timely_llm_ros.window import ExpectedPlaces, pose_event, things_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.node import Node

    from timely_llm_ros.nodes.window.parameters import WindowParameters
    from timely_llm_ros.window import Event

FIND_PERIOD_S = 1.0
POSE_PERIOD_S = 0.1
"""How often new robots are looked for, and poses are told (s)."""

MOST_ROBOTS = 300

ROBOT_STATE = 'timely_llm_ros/msg/RobotState'
MARKERS = 'visualization_msgs/msg/MarkerArray'

POSE_TYPES = {
    'geometry_msgs/msg/PoseStamped': lambda message: message.pose,
    'geometry_msgs/msg/PoseWithCovarianceStamped': lambda message: message.pose.pose,
    'nav_msgs/msg/Odometry': lambda message: message.pose.pose,
}
"""What a robot's pose may come as, and where the pose is in it."""

SENSOR_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Best effort hears reliable senders too."""


class FleetListener:
    """Calls ``tell`` with every event, on the ROS thread.

    Args:
        node: Subscribes.
        tell: Takes the events.
        parameters: Which robots and topics.
        on_robot: Called with the name of each robot once, when it is found.
    """

    def __init__(
        self,
        node: Node,
        tell: Callable[[Event], None],
        parameters: WindowParameters,
        on_robot: Callable[[str], None],
    ) -> None:
        self._node, self._tell, self._parameters = node, tell, parameters
        self._on_robot = on_robot
        self._prefix = node.get_namespace().rstrip('/') + '/'
        self._places = ExpectedPlaces()
        self._view = FleetView(node, self._hear)
        self._poses: dict[str, Any] = {}
        """The latest pose of each robot that was not told yet."""
        self._pose_topics: dict[str, str] = {}
        self._markers: set[str] = set()
        for robot in parameters.robots:
            self._add(robot)
        node.create_subscription(String, 'skill_catalogue', self._on_catalogue, STATE_QOS)
        create_steady_timer(node, FIND_PERIOD_S, self._find)
        create_steady_timer(node, POSE_PERIOD_S, self._tell_poses)

    def _hear(self, event: Event) -> None:
        self._tell(event)
        for more in self._places.take(event):
            if more['event'] != 'way' or more['robot'] not in self._pose_topics:
                self._tell(more)

    def _add(self, robot: str) -> None:
        if robot not in self._view.robots and len(self._view.robots) < MOST_ROBOTS:
            self._view.watch(robot)
            self._on_robot(robot)

    def _on_catalogue(self, message: String) -> None:
        self._places.learn(message.data)
        try:
            robots = [str(robot) for robot in yaml.safe_load(message.data)['robots']]
        except (yaml.YAMLError, TypeError, KeyError):
            self._node.get_logger().warning('skill_catalogue: not that of a planner')
            return
        for robot in robots:
            self._add(robot)

    def _find(self) -> None:
        """Look for robots, and for what tells where they and other things are."""
        for topic, types in self._node.get_topic_names_and_types():
            if not topic.startswith(self._prefix):
                continue
            name = topic.removeprefix(self._prefix)
            robot, _, below = name.partition('/')
            if ROBOT_STATE in types and below == 'robot_state':
                self._add(robot)
            elif MARKERS in types and name in self._parameters.marker_topics:
                self._show(name)
            elif below in self._parameters.pose_topics and robot in self._view.robots:
                self._follow(robot, below, types)

    def _show(self, topic: str) -> None:
        if topic in self._markers:
            return
        self._markers.add(topic)
        kind = import_module('visualization_msgs.msg').MarkerArray
        hear = partial(self._on_markers, topic)
        self._node.create_subscription(kind, topic, hear, **overridable(2))

    def _follow(self, robot: str, below: str, types: list[str]) -> None:
        if robot in self._pose_topics:
            return
        kind = next((one for one in types if one in POSE_TYPES), None)
        if kind is None:
            return
        package, _, name = kind.partition('/msg/')
        try:
            message_type = getattr(import_module(f'{package}.msg'), name)
        except ImportError:
            return
        self._pose_topics[robot] = below
        hear = partial(self._on_pose, robot, POSE_TYPES[kind])
        self._node.create_subscription(
            message_type, f'{robot}/{below}', hear, **overridable(SENSOR_QOS)
        )

    def _on_pose(self, robot: str, pose_of: Callable[[Any], Any], message: Any) -> None:
        self._poses[robot] = pose_of(message)

    def _on_markers(self, topic: str, message: Any) -> None:
        self._tell(things_event(topic, message))

    def _tell_poses(self) -> None:
        poses, self._poses = self._poses, {}
        for robot, pose in poses.items():
            self._tell(pose_event(robot, pose))
