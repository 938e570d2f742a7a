"""What makes a robot do segments and keeps it safe, whatever its driver."""

from timely_llm_ros.execution.driver import CallValue, Driver, Pose
from timely_llm_ros.execution.envelope import Box, Envelope, read_envelope
from timely_llm_ros.execution.executor import ExecutorPhase, ExecutorState, SegmentExecutor
from timely_llm_ros.execution.fence import Fence
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
from timely_llm_ros.execution.whereabouts import Whereabouts, way_of

__all__ = [
    'Box', 'CallValue', 'Driver', 'Envelope', 'ExecutorLimits', 'ExecutorPhase',
    'ExecutorState', 'Fence', 'Guard', 'LocalRobotLink', 'NoPerception', 'Perception', 'Pose',
    'RobotLink', 'SafeActionRetry', 'SegmentCode', 'SegmentExecutor', 'SegmentOutcome',
    'SegmentProgress', 'SimulatedPerception', 'TimedSegment', 'Whereabouts', 'read_envelope',
    'run_guarded', 'way_of',
]  # fmt: skip
