"""The driver of any arm that follows joint trajectories."""

from timely_llm_ros.drivers.trajectory.driver import TrajectoryDriver
from timely_llm_ros.drivers.trajectory.joint_link import JointLink, JointReading
from timely_llm_ros.drivers.trajectory.joint_poses import read_joint_poses
from timely_llm_ros.drivers.trajectory.options import TrajectoryOptions

__all__ = [
    'JointLink', 'JointReading', 'TrajectoryDriver', 'TrajectoryOptions', 'read_joint_poses',
]  # fmt: skip
