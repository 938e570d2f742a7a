"""What the launch files share: their common arguments, and nodes that follow them.

``ros2 launch`` imports this, so it imports nothing but the launch packages.
"""

from __future__ import annotations

import os
from typing import Any

from launch.actions import DeclareLaunchArgument, Shutdown
from launch.conditions import UnlessCondition
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

PACKAGE = 'timely_llm_ros'

LAUNCHER = 'TIMELY_LLM_LAUNCHER'
"""Environment variable that tells a program whether it ends with its launch, and who that is."""

RESPAWN_DELAY_S = 2.0


def common_arguments() -> list[DeclareLaunchArgument]:
    """Return the declarations of the arguments that every launch file has."""
    return [
        DeclareLaunchArgument(
            'namespace',
            default_value='',
            description='Namespace of the fleet: of the planner and of its robots',
        ),
        switch_argument('use_sim_time', default='false', description='Take the time from /clock'),
        switch_argument(
            'use_respawn',
            default='false',
            description=f'Start a program again {RESPAWN_DELAY_S:g} s after it ends by itself',
        ),
        switch_argument(
            'ends_with_launch',
            default='true',
            description='End the programs, with their robots safe, when launch ends without '
            'ending them, as on SIGTERM or kill -9',
        ),
        DeclareLaunchArgument(
            'log_level',
            default_value='info',
            choices=['debug', 'info', 'warn', 'error', 'fatal'],
            description='Least severity of what is logged',
        ),
    ]


def autostart_argument() -> DeclareLaunchArgument:
    """Return the declaration of the planner's ``autostart``."""
    return switch_argument(
        'autostart',
        default='true',
        description='Load the model and take tasks at once; else wait for the transitions',
    )


def driver_argument() -> DeclareLaunchArgument:
    """Return the declaration of the executors' ``driver``."""
    return DeclareLaunchArgument(
        'driver',
        default_value='simulated',
        description='What moves the robots: simulated, indy, ros, tello, trajectory, or a driver '
        'of another package',
    )


def drivers_file_argument() -> DeclareLaunchArgument:
    """Return the declaration of the executors' ``drivers_file``."""
    return DeclareLaunchArgument(
        'drivers_file',
        default_value='',
        description='YAML file with the driver and the options of robots by name; empty for none',
    )


def switch_argument(name: str, *, default: str, description: str) -> DeclareLaunchArgument:
    """Return the declaration of an argument that is ``true`` or ``false``."""
    return DeclareLaunchArgument(
        name, default_value=default, choices=['true', 'false'], description=description
    )


def file_argument(
    file: str, description: str, *, name: str = 'params_file'
) -> DeclareLaunchArgument:
    """Return the declaration of a parameter file, by default one of the package's ``config``."""
    return DeclareLaunchArgument(
        name,
        default_value=PathJoinSubstitution([FindPackageShare(PACKAGE), 'config', file]),
        description=description,
    )


def text(name: str) -> ParameterValue:
    """Return an argument as a parameter that stays text, whatever it looks like."""
    return ParameterValue(LaunchConfiguration(name), value_type=str)


def switch(name: str) -> ParameterValue:
    """Return an argument as a parameter that is true or false."""
    return ParameterValue(LaunchConfiguration(name), value_type=bool)


def number(name: str) -> ParameterValue:
    """Return an argument as a parameter that is a number."""
    return ParameterValue(LaunchConfiguration(name), value_type=float)


def node(
    executable: str,
    *,
    name: Any,
    parameters: dict[str, Any],
    file: str | None = 'params_file',
    ends_all: bool = False,
) -> Node:
    """Return a node of the package that follows the common arguments.

    Its parameters win over those of the file that the launch argument ``file`` names. With
    ``ends_all`` everything that was launched ends with it, unless it is started again.
    """
    files = [] if file is None else [LaunchConfiguration(file)]
    return Node(
        package=PACKAGE,
        executable=executable,
        name=name,
        namespace=LaunchConfiguration('namespace'),
        output='screen',
        parameters=[*files, {'use_sim_time': switch('use_sim_time'), **parameters}],
        ros_arguments=['--log-level', LaunchConfiguration('log_level')],
        additional_env={LAUNCHER: [LaunchConfiguration('ends_with_launch'), f' {os.getpid()}']},
        respawn=LaunchConfiguration('use_respawn'),
        respawn_delay=RESPAWN_DELAY_S,
        on_exit=[_end_all(executable)] if ends_all else None,
    )


def _end_all(executable: str) -> Shutdown:
    unless = UnlessCondition(LaunchConfiguration('use_respawn'))
    return Shutdown(reason=f'the {executable} has ended', condition=unless)
