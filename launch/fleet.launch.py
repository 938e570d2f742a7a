"""A planner and the executors of its robots, one process for each robot."""

from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

from launch import LaunchDescription

PACKAGE = 'timely_llm_ros'
ROBOTS = (
    'drone_1:tello,drone_2:tello,drone_3:tello,drone_4:tello,drone_5:tello,drone_6:tello,'
    'arm_1:arm,arm_2:arm'
)


def nodes(context):
    """Return the nodes of the fleet that the arguments describe."""
    robots = [entry.strip() for entry in LaunchConfiguration('robots').perform(context).split(',')]
    shared = {'use_sim_time': ParameterValue(LaunchConfiguration('use_sim_time'), value_type=bool)}
    log_level = ['--log-level', LaunchConfiguration('log_level')]
    planner = Node(
        package=PACKAGE,
        executable='planner',
        name='planner',
        namespace=LaunchConfiguration('namespace'),
        output='screen',
        parameters=[
            LaunchConfiguration('params_file'),
            shared,
            {
                'robots': robots,
                'autostart': ParameterValue(LaunchConfiguration('autostart'), value_type=bool),
            },
        ],
        ros_arguments=log_level,
    )
    executors = [
        Node(
            package=PACKAGE,
            executable='executor',
            name=f'{entry.partition(":")[0]}_executor',
            namespace=LaunchConfiguration('namespace'),
            output='screen',
            parameters=[
                LaunchConfiguration('executor_params_file'),
                shared,
                {
                    'robots': [entry],
                    'driver': ParameterValue(LaunchConfiguration('driver'), value_type=str),
                },
            ],
            ros_arguments=log_level,
        )
        for entry in robots
    ]
    return [planner, *executors]


def generate_launch_description():
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                'robots',
                default_value=ROBOTS,
                description='The fleet: "name:skill_set" entries, separated by commas',
            ),
            DeclareLaunchArgument(
                'driver',
                default_value='simulated',
                choices=['simulated'],
                description='What moves the robots',
            ),
            DeclareLaunchArgument(
                'namespace',
                default_value='',
                description='Namespace of the fleet: of the planner and of its robots',
            ),
            DeclareLaunchArgument(
                'params_file',
                default_value=PathJoinSubstitution(
                    [FindPackageShare(PACKAGE), 'config', 'fleet.yaml']
                ),
                description="File with the planner's other parameters",
            ),
            DeclareLaunchArgument(
                'executor_params_file',
                default_value=PathJoinSubstitution(
                    [FindPackageShare(PACKAGE), 'config', 'executor.yaml']
                ),
                description="File with the executors' other parameters",
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
            OpaqueFunction(function=nodes),
        ]
    )
