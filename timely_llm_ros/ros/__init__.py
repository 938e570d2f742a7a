"""The parts that every ROS 2 node of this package is made of."""

from timely_llm_ros.ros.action_client import GoalClient
from timely_llm_ros.ros.action_server import DeferredActionServer
from timely_llm_ros.ros.deferred_service import create_deferred_service
from timely_llm_ros.ros.feedback import FeedbackThrottle
from timely_llm_ros.ros.parameters import (
    TYPE_NAMES,
    Declaration,
    Value,
    build,
    check,
    declarations,
    declare,
    fixed,
    fixed_group,
    read,
)
from timely_llm_ros.ros.program import run
from timely_llm_ros.ros.robot_entry import RobotEntry, robot_entries
from timely_llm_ros.ros.ros_thread import RosThread
from timely_llm_ros.ros.sole_publisher import IdentifiedSubscription, SolePublisher
from timely_llm_ros.ros.topics import (
    EVENTS_QOS,
    HEARTBEAT_QOS,
    HEARTBEAT_TOPIC,
    SEGMENTS_QOS,
    STATE_QOS,
    TASK_EVENTS_TOPIC,
)

__all__ = [
    'EVENTS_QOS',
    'HEARTBEAT_QOS',
    'HEARTBEAT_TOPIC',
    'SEGMENTS_QOS',
    'STATE_QOS',
    'TASK_EVENTS_TOPIC',
    'TYPE_NAMES',
    'Declaration',
    'DeferredActionServer',
    'FeedbackThrottle',
    'GoalClient',
    'IdentifiedSubscription',
    'RobotEntry',
    'RosThread',
    'SolePublisher',
    'Value',
    'build',
    'check',
    'create_deferred_service',
    'declarations',
    'declare',
    'fixed',
    'fixed_group',
    'read',
    'robot_entries',
    'run',
]  # fmt: skip
