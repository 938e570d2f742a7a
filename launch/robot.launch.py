"""The executor of one robot."""

from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

from launch import LaunchDescription

PACKAGE = 'timely_llm_ros'


def generate_launch_description():
    robot = LaunchConfiguration('robot')
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                'robot', description='Name of the robot, as the planner and tasks call it'
            ),
            DeclareLaunchArgument(
                'skill_set',
                default_value='tello',
                description='Skill set of the robot: the name of a shipped one or a path',
            ),
            DeclareLaunchArgument(
                'driver',
                default_value='simulated',
                choices=['simulated'],
                description='What moves the robot',
            ),
            DeclareLaunchArgument(
                'namespace',
                default_value='',
                description='Namespace of the fleet: of the planner and of its robots',
            ),
            DeclareLaunchArgument(
                'params_file',
                default_value=PathJoinSubstitution(
                    [FindPackageShare(PACKAGE), 'config', 'executor.yaml']
                ),
                description="File with the executor's other parameters",
            ),
            DeclareLaunchArgument(
                'use_sim_time',
                default_value='false',
                choices=['true', 'false'],
                description='Take the stamps of messages from /clock',
            ),
            DeclareLaunchArgument(
                'log_level',
                default_value='info',
                choices=['debug', 'info', 'warn', 'error', 'fatal'],
                description='Least severity of what is logged',
            ),
            Node(
                package=PACKAGE,
                executable='executor',
                name=[robot, '_executor'],
                namespace=LaunchConfiguration('namespace'),
                output='screen',
                parameters=[
                    LaunchConfiguration('params_file'),
                    {
                        'robot': ParameterValue(robot, value_type=str),
                        'skill_set': ParameterValue(
                            LaunchConfiguration('skill_set'), value_type=str
                        ),
                        'driver': ParameterValue(LaunchConfiguration('driver'), value_type=str),
                        'use_sim_time': ParameterValue(
                            LaunchConfiguration('use_sim_time'), value_type=bool
                        ),
                    },
                ],
                ros_arguments=['--log-level', LaunchConfiguration('log_level')],
            ),
        ]
    )
