"""The replay: plays a trace back onto its topics, with /clock."""

from launch.actions import DeclareLaunchArgument

from launch import LaunchDescription
from timely_llm_ros import launching


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription(
        [
            DeclareLaunchArgument('trace', description='What to play: a folder or an MCAP file'),
            DeclareLaunchArgument(
                'rate',
                default_value='1.0',
                description='Seconds of the trace that pass in one real one',
            ),
            DeclareLaunchArgument(
                'prefix', default_value='', description="Put before every topic's name"
            ),
            launching.switch_argument(
                'start_paused', default='false', description='Wait for ~/resume or ~/play_next'
            ),
            DeclareLaunchArgument(
                'at_end',
                default_value='exit',
                choices=['exit', 'pause', 'loop'],
                description='What to do behind the last message',
            ),
            *launching.common_arguments(),
            launching.node(
                'replay',
                name='replay',
                parameters={
                    'trace': launching.text('trace'),
                    'rate': launching.number('rate'),
                    'prefix': launching.text('prefix'),
                    'start_paused': launching.switch('start_paused'),
                    'at_end': launching.text('at_end'),
                },
                file=None,
            ),
        ]
    )
