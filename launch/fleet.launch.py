"""A planner and the executors of its robots, one process for each robot or one for all."""

from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration

from launch import LaunchDescription
from timely_llm_ros import launching

ROBOTS = (
    'drone_1:tello,drone_2:tello,drone_3:tello,drone_4:tello,drone_5:tello,drone_6:tello,'
    'arm_1:arm,arm_2:arm'
)


def nodes(context: object) -> list[object]:
    """Return the nodes of the fleet that the arguments describe."""
    robots = [entry.strip() for entry in LaunchConfiguration('robots').perform(context).split(',')]
    planner = launching.node(
        'planner',
        name='planner',
        parameters={'robots': robots, 'autostart': launching.switch('autostart')},
        # Robots that nobody plans for are made safe and released.
        ends_all=True,
    )
    driver = LaunchConfiguration('driver').perform(context)
    together = driver == 'tello' or LaunchConfiguration('together').perform(context) == 'true'
    groups = [robots] if together else [[entry] for entry in robots]
    executors = [
        launching.node(
            'executor',
            name='fleet_executor' if together else f'{group[0].partition(":")[0]}_executor',
            parameters={
                'robots': group,
                'driver': launching.text('driver'),
                'drivers_file': launching.text('drivers_file'),
            },
            file='executor_params_file',
        )
        for group in groups
    ]
    return [planner, *executors]


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                'robots',
                default_value=ROBOTS,
                description='The fleet: "name:skill_set" entries, separated by commas',
            ),
            launching.driver_argument(),
            launching.drivers_file_argument(),
            launching.switch_argument(
                'together',
                default='false',
                description='One executor for all robots instead of one for each. Tellos always '
                'share one: the two UDP ports of their SDK belong to one program',
            ),
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
