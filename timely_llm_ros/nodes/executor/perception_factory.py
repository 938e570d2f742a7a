"""The eyes that an executor can give its robots, by name."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.execution import NoPerception, Perception, SimulatedPerception

if TYPE_CHECKING:
    from rclpy.node import Node

    from timely_llm_ros.ros import RosThread

PERCEPTIONS = ('topic', 'simulated', 'none')
"""A node of somebody else's on a topic; a draw; or nothing, so that looking fails."""


def check_perception(robot: str, name: object) -> None:
    """Check the name of a robot's eyes.

    Raises:
        ConfigurationError: There are none of this name.
    """
    if name not in PERCEPTIONS:
        raise ConfigurationError(
            f'robot {robot!r}: perception {name!r}: expected one of {", ".join(PERCEPTIONS)}'
        )


def create_perception(
    name: str, node: Node, ros: RosThread, robot: str, *, seed: int
) -> Perception:
    """Return a robot's eyes.

    Args:
        name: One of ``PERCEPTIONS``.
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
        case _:
            return NoPerception()
