"""The parameters of the window's node."""

from __future__ import annotations

from dataclasses import dataclass

from timely_llm_ros.ros import fixed, fixed_group
from timely_llm_ros.window import WindowOptions


@dataclass(frozen=True, slots=True)
class WindowParameters:
    """What the window is told. All is fixed once it has started."""

    serving: WindowOptions = fixed_group(WindowOptions())
    robots: tuple[str, ...] = fixed(
        (), 'Robots that are shown before anyone hears of them; others are found by their topics.'
    )
    pose_topics: tuple[str, ...] = fixed(
        ('pose', 'self_localization/pose', 'odom', 'amcl_pose'),
        'Where the poses of robots come from, below the name of each, the best first: PoseStamped, '
        'PoseWithCovarianceStamped or Odometry in a frame that all robots share. Robots without '
        'one are shown where their plans lead them.',
    )
    marker_topics: tuple[str, ...] = fixed(
        ('world_markers',),
        'MarkerArray topics with things to show beside the robots; what is not there is left out.',
    )
