"""The skills of ``skills/tello.yaml``, each as what the aircraft flies and its eyes see."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Protocol

from timely_llm_ros.drivers.call_arguments import number_of, object_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from timely_llm_ros.execution import CallValue, Perception
    from timely_llm_ros.skills import Call, Scene

    SkillFunction = Callable[[Call, Scene], Awaitable[CallValue]]

_logger = logging.getLogger(__name__)

HOVER_S = 1.0
"""How long ``hover`` stays in place (s)."""

_MOVES = {
    'move_forward': 'forward',
    'move_backward': 'back',
    'move_left': 'left',
    'move_right': 'right',
    'move_up': 'up',
    'move_down': 'down',
}


class Flight(Protocol):
    """What flies an aircraft, one thing at a time; everything raises where it is not done."""

    async def take_off(self) -> None:
        """Climb to a hovering height."""
        ...

    async def land(self) -> None:
        """Go down until the motors are off."""
        ...

    async def move(self, direction: str, distance_m: float) -> None:
        """Fly forward, back, left, right, up or down."""
        ...

    async def turn(self, angle_rad: float) -> None:
        """Turn on the spot, counter-clockwise if the angle is positive."""
        ...

    async def approach(self, x_m: float, y_m: float) -> None:
        """Turn towards a place, counted from the start, and fly to it, stopping short of it."""
        ...

    async def stay(self, duration_s: float) -> None:
        """Stay in place for a time."""
        ...


def tello_skills(flight: Flight, perception: Perception, name: str) -> Mapping[str, SkillFunction]:
    """Return what each skill does; each may raise what flight and perception raise.

    Args:
        flight: Flies the aircraft.
        perception: Its eyes.
        name: Of the aircraft, for the log.
    """

    async def scan(_call: Call, scene: Scene) -> None:
        seen: set[str] = set()
        for _ in range(4):
            await flight.turn(-math.pi / 2)
            seen |= await perception.look(scene)
        _logger.info('Tello %s sees %s', name, ', '.join(sorted(seen)) or 'nothing')

    async def go_to(call: Call, scene: Scene) -> None:
        target = object_of(call, scene)
        await flight.approach(target.x_m, target.y_m)

    async def is_visible(call: Call, scene: Scene) -> bool:
        return object_of(call, scene).name in await perception.look(scene)

    async def log(call: Call, _scene: Scene) -> None:
        _logger.info('Tello %s: %s', name, call.arguments[0].value)

    return {
        **dict.fromkeys(_MOVES, lambda call, _: flight.move(_MOVES[call.skill], number_of(call))),
        'takeoff': lambda _, __: flight.take_off(),
        'land': lambda _, __: flight.land(),
        'turn_cw': lambda call, _: flight.turn(-number_of(call)),
        'turn_ccw': lambda call, _: flight.turn(number_of(call)),
        'scan': scan,
        'goto': go_to,
        'is_visible': is_visible,
        'take_picture': lambda _, __: perception.take_picture(),
        'delay': lambda call, _: flight.stay(number_of(call)),
        'hover': lambda _, __: flight.stay(HOVER_S),
        'log': log,
    }
