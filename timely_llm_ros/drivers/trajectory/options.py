"""The options of the driver of an arm that follows joint trajectories."""

from __future__ import annotations

import math
from dataclasses import dataclass

from timely_llm_ros.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryOptions:
    """How one arm is driven.

    Attributes:
        poses_file: YAML file of its joints, poses and skills, see ``JointPoses``.
        speed: Share of the joints' greatest speed, above 0 to 1.
        goal_tolerance: How near each joint comes to its goal (rad or m).
        goal_time_s: How much later than planned that may be (s).
        state_limit_s: Silence of the joint states that counts as a lost link (s).
        stop_s: How long a stop takes (s): so much time a joint has to slow down.
        command_topic: Where trajectories go; ``{robot}`` stands for the name of the robot.
        state_topic: Where joint states come from; likewise.

    Raises:
        ConfigurationError: A value is out of range.
    """

    poses_file: str
    speed: float = 0.5
    goal_tolerance: float = 0.02
    goal_time_s: float = 2.0
    state_limit_s: float = 0.2
    stop_s: float = 0.2
    command_topic: str = '{robot}/joint_trajectory_controller/joint_trajectory'
    state_topic: str = '{robot}/joint_states'

    def __post_init__(self) -> None:
        if not 0 < self.speed <= 1:
            raise ConfigurationError(f'speed {self.speed!r}: expected a number above 0, at most 1')
        for name in ('goal_tolerance', 'goal_time_s', 'state_limit_s', 'stop_s'):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ConfigurationError(f'{name} {value!r}: expected a number above 0')
