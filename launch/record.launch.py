"""The recorder: writes a fleet's topics into a trace until it is stopped."""

from launch.actions import DeclareLaunchArgument

from launch import LaunchDescription
from timely_llm_ros import launching


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                'output',
                default_value='',
                description='Folder of the trace, which must not exist; empty: named by the time',
            ),
            *launching.common_arguments(),
            launching.node(
                'recorder',
                name='recorder',
                parameters={'output': launching.text('output')},
                file=None,
            ),
        ]
    )
