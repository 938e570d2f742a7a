"""The planner of a fleet, without its robots."""

from launch import LaunchDescription
from timely_llm_ros import launching


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription(
        [
            *launching.common_arguments(),
            launching.autostart_argument(),
            launching.file_argument(
                'planner.yaml',
                "File with the planner's parameters, the names of its robots included",
            ),
            launching.node(
                'planner', name='planner', parameters={'autostart': launching.switch('autostart')}
            ),
        ]
    )
