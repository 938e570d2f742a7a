"""What a world is made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from timely_llm_ros.options import check_options, option

if TYPE_CHECKING:
    from timely_llm_ros.skills import Scene


Body = Literal['drone', 'arm']
"""What a robot of the world is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldOptions:
    """The weather indoors and the eyesight of cameras; both follow from the seed.

    Raises:
        ConfigurationError: A value is out of range.
    """

    seed: int = option(0, 'of wind, walks and errors of cameras', minimum=0, maximum=2**31 - 1)
    wind_m_s: float = option(0.3, 'mean draught (m/s)', minimum=0.0, maximum=10.0)
    gusts_m_s: float = option(0.2, 'spread of the draught (m/s)', minimum=0.0, maximum=10.0)
    noise: float = option(
        0.0,
        'share of the objects in view that a camera misses, and of those that it calls by '
        'another kind',
        minimum=0.0,
        maximum=1.0,
    )
    position_noise_m: float = option(
        0.03, 'spread of the positions that a camera tells (m)', minimum=0.0, maximum=5.0
    )

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, slots=True)
class Bay:
    """The part of the room in which one robot is.

    Attributes:
        robot: Its name.
        scene: What is there; positions are from the drone's start, or from the arm's base.
        body: What the robot is.
    """

    robot: str
    scene: Scene
    body: Body = 'drone'
