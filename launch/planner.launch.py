"""The planner of a fleet, without its robots."""

from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

from launch import LaunchDescription

PACKAGE = 'timely_llm_ros'


def generate_launch_description():
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                'namespace',
                default_value='',
                description='Namespace of the fleet: of the planner and of its robots',
            ),
            DeclareLaunchArgument(
                'params_file',
                default_value=PathJoinSubstitution(
                    [FindPackageShare(PACKAGE), 'config', 'planner.yaml']
                ),
                description="File with the planner's parameters, the names of its robots included",
            ),
            DeclareLaunchArgument(
                'use_sim_time',
                default_value='false',
                choices=['true', 'false'],
                description='Take the stamps of messages from /clock',
            ),
            DeclareLaunchArgument(
                'autostart',
                default_value='true',
                choices=['true', 'false'],
                description='Load the model and take tasks at once; else wait for the transitions',
            ),
            DeclareLaunchArgument(
                'log_level',
                default_value='info',
                choices=['debug', 'info', 'warn', 'error', 'fatal'],
                description='Least severity of what is logged',
            ),
            Node(
                package=PACKAGE,
                executable='planner',
                name='planner',
                namespace=LaunchConfiguration('namespace'),
                output='screen',
                parameters=[
                    LaunchConfiguration('params_file'),
                    {
                        'use_sim_time': ParameterValue(
                            LaunchConfiguration('use_sim_time'), value_type=bool
                        ),
                        'autostart': ParameterValue(
                            LaunchConfiguration('autostart'), value_type=bool
                        ),
                    },
                ],
                ros_arguments=['--log-level', LaunchConfiguration('log_level')],
            ),
        ]
    )
