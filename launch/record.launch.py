"""The recorder: writes a fleet's topics into a trace until it is stopped."""

from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from launch import LaunchDescription


def generate_launch_description():
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                'output',
                default_value='',
                description='Folder of the trace, which must not exist; empty: named by the time',
            ),
            DeclareLaunchArgument(
                'namespace',
                default_value='',
                description='Namespace of the fleet: of the planner and of its robots',
            ),
            DeclareLaunchArgument(
                'use_sim_time',
                default_value='false',
                choices=['true', 'false'],
                description='Take the time from /clock',
            ),
            DeclareLaunchArgument(
                'log_level',
                default_value='info',
                choices=['debug', 'info', 'warn', 'error', 'fatal'],
                description='Least severity of what is logged',
            ),
            Node(
                package='timely_llm_ros',
                executable='recorder',
                name='recorder',
                namespace=LaunchConfiguration('namespace'),
                output='screen',
                parameters=[
                    {
                        'output': ParameterValue(LaunchConfiguration('output'), value_type=str),
                        'use_sim_time': ParameterValue(
                            LaunchConfiguration('use_sim_time'), value_type=bool
                        ),
                    }
                ],
                ros_arguments=['--log-level', LaunchConfiguration('log_level')],
            ),
        ]
    )
