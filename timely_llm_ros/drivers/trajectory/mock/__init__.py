"""An arm with joints that exists in memory only."""

from timely_llm_ros.drivers.trajectory.mock.joint_body import JointBody

__all__ = [
    'JointBody',
]
