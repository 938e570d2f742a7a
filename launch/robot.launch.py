"""The executor of one robot."""

from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration

from launch import LaunchDescription
from timely_llm_ros import launching


def generate_launch_description() -> LaunchDescription:
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
            launching.driver_argument(),
            launching.drivers_file_argument(),
            *launching.common_arguments(),
            launching.file_argument('executor.yaml', "File with the executor's other parameters"),
            launching.node(
                'executor',
                name=[LaunchConfiguration('robot'), '_executor'],
                parameters={
                    name: launching.text(name)
                    for name in ('robot', 'skill_set', 'driver', 'drivers_file')
                },
            ),
        ]
    )
