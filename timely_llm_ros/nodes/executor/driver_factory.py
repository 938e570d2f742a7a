"""Drivers that need ROS themselves, and all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timely_llm_ros.drivers import create_driver

if TYPE_CHECKING:
    from timely_llm_ros.execution import Driver
    from timely_llm_ros.skills import SkillSet

TOPICS = ('command_topic', 'state_topic')
"""Options of the ``trajectory`` driver that are its link's."""


def make_driver(
    driver: str, skill_set: SkillSet, *, robot: str, namespace: str, options: dict[str, Any]
) -> Driver:
    """Return a robot's driver, not yet connected; what it needs of ROS is opened with it.

    Args:
        driver: Its name.
        skill_set: The robot's skills.
        robot: Name of the robot.
        namespace: Namespace of its fleet.
        options: The driver's keyword options.

    Raises:
        ConfigurationError: There is no such driver, or it does not take an option or its value.
    """
    if driver != 'trajectory':
        return create_driver(driver, skill_set, **options)
    from timely_llm_ros.nodes.executor.joint_topics import JointTopics

    topics = {name: str(value) for name, value in options.items() if name in TOPICS}
    rest = {name: value for name, value in options.items() if name not in TOPICS}
    link = JointTopics(robot, namespace, **topics)
    return create_driver(driver, skill_set, link=link, **rest)
