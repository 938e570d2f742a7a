"""What makes a robot do segments and keeps it safe, whatever its driver."""

from timely_llm_ros.execution.driver import CallValue, Driver
from timely_llm_ros.execution.executor import ExecutorState, SegmentExecutor
from timely_llm_ros.execution.guard import Guard, run_guarded
from timely_llm_ros.execution.limits import ExecutorLimits
from timely_llm_ros.execution.local_link import LocalRobotLink
from timely_llm_ros.execution.perception import NoPerception, Perception, SimulatedPerception
from timely_llm_ros.execution.robot_link import (
    RobotLink,
    SegmentCode,
    SegmentOutcome,
    SegmentProgress,
    TimedSegment,
)
from timely_llm_ros.execution.safe_action_retry import SafeActionRetry

__all__ = [
    'CallValue', 'Driver', 'ExecutorLimits', 'ExecutorState', 'Guard', 'LocalRobotLink',
    'NoPerception', 'Perception', 'RobotLink', 'SafeActionRetry', 'SegmentCode', 'SegmentExecutor',
    'SegmentOutcome', 'SegmentProgress', 'SimulatedPerception', 'TimedSegment', 'run_guarded',
]  # fmt: skip
