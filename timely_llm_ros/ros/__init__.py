"""The parts that every ROS 2 node of this package is made of."""

from timely_llm_ros.ros.action_client import GoalClient
from timely_llm_ros.ros.action_server import DeferredActionServer
from timely_llm_ros.ros.deferred_service import create_deferred_service
from timely_llm_ros.ros.feedback import FeedbackThrottle
from timely_llm_ros.ros.metrics import (
    METRICS_PERIOD_S,
    Distribution,
    Exporter,
    Metric,
    MetricsOptions,
    Samples,
)
from timely_llm_ros.ros.node_log import LEVELS, set_level
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
    live_values,
    read,
)
from timely_llm_ros.ros.program import autostart, run
from timely_llm_ros.ros.robot_entry import RobotEntry, robot_entries
from timely_llm_ros.ros.ros_thread import SPIN_S, RosThread, TaskExecutor, initialise
from timely_llm_ros.ros.sole_publisher import (
    EPOCH,
    NEW_S,
    EarlyClaim,
    IdentifiedSubscription,
    SolePublisher,
    SoleTopic,
    same_program,
)
from timely_llm_ros.ros.steady_timer import create_steady_timer
from timely_llm_ros.ros.task_client import SentTask, TaskClient
from timely_llm_ros.ros.topics import (
    DEPTH_OVERRIDES,
    EVENTS_QOS,
    HEARTBEAT_QOS,
    HEARTBEAT_TOPIC,
    REST_PERIOD_S,
    SEGMENTS_QOS,
    STATE_QOS,
    TASK_EVENTS_TOPIC,
    overridable,
)

__all__ = [
    'DEPTH_OVERRIDES',
    'EPOCH',
    'EVENTS_QOS',
    'HEARTBEAT_QOS',
    'HEARTBEAT_TOPIC',
    'LEVELS',
    'METRICS_PERIOD_S',
    'NEW_S',
    'REST_PERIOD_S',
    'SEGMENTS_QOS',
    'SPIN_S',
    'STATE_QOS',
    'TASK_EVENTS_TOPIC',
    'TYPE_NAMES',
    'Declaration',
    'DeferredActionServer',
    'Distribution',
    'EarlyClaim',
    'Exporter',
    'FeedbackThrottle',
    'GoalClient',
    'IdentifiedSubscription',
    'Metric',
    'MetricsOptions',
    'RobotEntry',
    'RosThread',
    'Samples',
    'SentTask',
    'SolePublisher',
    'SoleTopic',
    'TaskClient',
    'TaskExecutor',
    'Value',
    'autostart',
    'build',
    'check',
    'create_deferred_service',
    'create_steady_timer',
    'declarations',
    'declare',
    'fixed',
    'fixed_group',
    'initialise',
    'live_values',
    'overridable',
    'read',
    'robot_entries',
    'run',
    'same_program',
    'set_level',
]  # fmt: skip
