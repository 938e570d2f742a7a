"""The driver of any robot with ROS interfaces: a file says what each skill calls."""

from timely_llm_ros.drivers.ros.calls_file import Calls, Request, find_calls_file, read_calls
from timely_llm_ros.drivers.ros.driver import RosDriver
from timely_llm_ros.drivers.ros.link import Endpoint, GoalEnding, GoalRun, RosLink
from timely_llm_ros.drivers.ros.message_types import find_type
from timely_llm_ros.drivers.ros.options import RosOptions

__all__ = [
    'Calls', 'Endpoint', 'GoalEnding', 'GoalRun', 'Request', 'RosDriver', 'RosLink', 'RosOptions',
    'find_calls_file', 'find_type', 'read_calls',
]  # fmt: skip
