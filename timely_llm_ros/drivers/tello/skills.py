"""The skills of ``skills/tello.yaml``, each as what the aircraft flies and its eyes see."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from timely_llm_ros.errors import SkillFailedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from timely_llm_ros.drivers.tello.flight import TelloFlight
    from timely_llm_ros.execution import CallValue, Perception
    from timely_llm_ros.skills import Call, Scene, SceneObject

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


class TelloSkills:
    """What each skill does; all may raise what flight and perception raise.

    Args:
        flight: Flies the aircraft.
        perception: Its eyes.
    """

    def __init__(self, flight: TelloFlight, perception: Perception) -> None:
        self._flight, self._perception = flight, perception
        self.by_name: Mapping[str, SkillFunction] = {
            **dict.fromkeys(_MOVES, self._move),
            'takeoff': self._take_off,
            'land': self._land,
            'turn_cw': self._turn,
            'turn_ccw': self._turn,
            'scan': self._scan,
            'goto': self._go_to,
            'is_visible': self._is_visible,
            'take_picture': self._take_picture,
            'delay': self._delay,
            'hover': self._hover,
            'log': self._log,
        }
        """The skills by name."""

    async def _take_off(self, _call: Call, _scene: Scene) -> None:
        await self._flight.take_off()

    async def _land(self, _call: Call, _scene: Scene) -> None:
        await self._flight.land()

    async def _move(self, call: Call, _scene: Scene) -> None:
        await self._flight.move(_MOVES[call.skill], _number(call))

    async def _turn(self, call: Call, _scene: Scene) -> None:
        await self._flight.turn(_number(call) * (1 if call.skill == 'turn_ccw' else -1))

    async def _scan(self, _call: Call, scene: Scene) -> None:
        seen: set[str] = set()
        for _ in range(4):
            await self._flight.turn(-math.pi / 2)
            seen |= await self._perception.look(scene)
        _logger.info(
            'Tello %s sees %s', self._flight.wire.host, ', '.join(sorted(seen)) or 'nothing'
        )

    async def _go_to(self, call: Call, scene: Scene) -> None:
        target = _target(call, scene)
        await self._flight.approach(target.x_m, target.y_m)

    async def _is_visible(self, call: Call, scene: Scene) -> bool:
        return _target(call, scene).name in await self._perception.look(scene)

    async def _take_picture(self, _call: Call, _scene: Scene) -> None:
        await self._perception.take_picture()

    async def _delay(self, call: Call, _scene: Scene) -> None:
        await self._flight.stay(_number(call))

    async def _hover(self, _call: Call, _scene: Scene) -> None:
        await self._flight.stay(HOVER_S)

    async def _log(self, call: Call, _scene: Scene) -> None:
        _logger.info('Tello %s: %s', self._flight.wire.host, call.arguments[0].value)


def _number(call: Call) -> float:
    value = call.arguments[0].value if call.arguments else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SkillFailedError(f'argument {value!r}: expected a number')
    return value


def _target(call: Call, scene: Scene) -> SceneObject:
    name = call.arguments[0].value if call.arguments else ''
    target = scene.get(str(name))
    if target is None:
        raise SkillFailedError(f'object {name!r}: expected one of the scene')
    return target
