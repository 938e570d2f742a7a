"""The eyes that an executor can give its robots, by name."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Literal, get_args

from timely_llm_ros.execution import NoPerception, Perception, SimulatedPerception

if TYPE_CHECKING:
    from rclpy.node import Node

    from timely_llm_ros.ros import RosThread

PerceptionName = Literal['topic', 'simulated', 'none']
"""``topic``: a node of somebody else's sees and says so on a topic. ``simulated``: a draw.
``none``: nothing, so that looking fails."""

PERCEPTIONS: tuple[PerceptionName, ...] = get_args(PerceptionName)


def create_perception(
    name: PerceptionName, node: Node, ros: RosThread, robot: str, *, seed: int
) -> Perception:
    """Return a robot's eyes.

    Args:
        name: Which ones.
        node: The executor's node.
        ros: Its thread.
        robot: Name of the robot.
        seed: Of simulated eyes.
    """
    match name:
        case 'topic':
            # Imported here: a robot without it needs none of its messages.
            from timely_llm_ros.nodes.executor.topic_perception import TopicPerception

            return TopicPerception(node, ros, robot)
        case 'simulated':
            return SimulatedPerception(seed=seed ^ zlib.crc32(robot.encode()))
        case 'none':
            return NoPerception()
