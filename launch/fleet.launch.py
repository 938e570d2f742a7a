"""A planner and the executors of its robots, one process for each robot."""

from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration

from launch import LaunchDescription
from timely_llm_ros import launching

ROBOTS = (
    'drone_1:tello,drone_2:tello,drone_3:tello,drone_4:tello,drone_5:tello,drone_6:tello,'
    'arm_1:arm,arm_2:arm'
)


def nodes(context):
    """Return the nodes of the fleet that the arguments describe."""
    robots = [entry.strip() for entry in LaunchConfiguration('robots').perform(context).split(',')]
    planner = launching.node(
        'planner',
        name='planner',
        parameters={'robots': robots, 'autostart': launching.switch('autostart')},
    )
    executors = [
        launching.node(
            'executor',
            name=f'{entry.partition(":")[0]}_executor',
            parameters={
                'robots': [entry],
                'driver': launching.text('driver'),
                'drivers_file': launching.text('drivers_file'),
            },
            file='executor_params_file',
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
            launching.driver_argument(),
            launching.drivers_file_argument(),
            *launching.common_arguments(),
            launching.autostart_argument(),
            launching.file_argument('fleet.yaml', "File with the planner's other parameters"),
            launching.file_argument(
                'executor.yaml',
                "File with the executors' other parameters",
                name='executor_params_file',
            ),
            OpaqueFunction(function=nodes),
        ]
    )
