"""The options of the driver of a robot with ROS interfaces."""

from __future__ import annotations

from dataclasses import dataclass

from timely_llm_ros.options import check_options, option


@dataclass(frozen=True, slots=True, kw_only=True)
class RosOptions:
    """How one robot is called. In texts ``{robot}`` stands for the robot's name.

    Attributes:
        calls_file: What each skill calls: the name of a shipped file, or a path.

    Raises:
        ConfigurationError: A value is out of range.
    """

    calls_file: str
    prefix: str = option(
        '{robot}/',
        'Goes before every name in the file that does not begin with "/"; relative to the '
        'namespace of the fleet, unless it begins with "/".',
    )
    frame: str = option('map', 'Frame whose origin and axes the positions in scenes have.')
    body_frame: str = option(
        '{robot}/base_link', "Frame of the robot's body, for goals relative to where it is."
    )
    server_limit_s: float = option(
        5.0, 'How long it may take until every server is found (s).', minimum=0.1, maximum=600
    )
    answer_limit_s: float = option(
        2.0,
        'How long a server may take to accept a goal or to answer a request (s).',
        minimum=0.01,
        maximum=600,
    )

    def __post_init__(self) -> None:
        check_options(self)
