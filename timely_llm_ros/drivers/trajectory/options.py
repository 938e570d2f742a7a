"""The options of the driver of an arm that follows joint trajectories."""

from __future__ import annotations

from dataclasses import dataclass

from timely_llm_ros.options import check_options, option


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryOptions:
    """How one arm is driven. In the names of topics ``{robot}`` stands for the robot's name.

    Attributes:
        poses_file: YAML file of its joints, poses and skills, see ``JointPoses``.

    Raises:
        ConfigurationError: A value is out of range.
    """

    poses_file: str
    speed: float = option(0.5, "Share of the joints' greatest speed.", minimum=0.001, maximum=1)
    goal_tolerance: float = option(
        0.02, 'How near each joint comes to its goal (rad or m).', minimum=1e-9
    )
    goal_time_s: float = option(2.0, 'How late a motion may reach its goal (s).', minimum=0.001)
    state_limit_s: float = option(
        0.2, 'Silence of the joint states that counts as a lost link (s).', minimum=0.001
    )
    stop_s: float = option(0.2, 'In this time a stop slows a joint down (s).', minimum=0.001)
    command_topic: str = option(
        '{robot}/joint_trajectory_controller/joint_trajectory', 'Where trajectories go.'
    )
    state_topic: str = option('{robot}/joint_states', 'Where joint states come from.')

    def __post_init__(self) -> None:
        check_options(self)
