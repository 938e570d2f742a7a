"""The driver of any arm that follows joint trajectories."""

from timely_llm_ros.drivers.trajectory.driver import TrajectoryDriver
from timely_llm_ros.drivers.trajectory.joint_link import JointReading
from timely_llm_ros.drivers.trajectory.joint_poses import read_joint_poses

__all__ = [
    'JointReading',
    'TrajectoryDriver',
    'read_joint_poses',
]
