"""A drone's body that integrates its own motions, and draws what nobody can know of them.

It knows the skills of ``tello`` by their names and reads nothing of their motions in the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import SkillFailedError
from timely_llm_ros.execution import CallValue, Pose

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from timely_llm_ros.skills import Call, Scene

Place = tuple[float, float, float]

ASIDE = {'move_forward': 0.0, 'move_left': 90.0, 'move_backward': 180.0, 'move_right': 270.0}
"""Where a move leads, counter-clockwise of ahead (degrees)."""


@dataclass
class Told:
    """One call that a body was told: the places that it went through, straight from each to next.

    ``was_on_ground`` says whether it stood before, ``charge`` what it had left.
    """

    call: Call
    scene: Scene
    places: list[Place]
    was_on_ground: bool
    charge: float


@dataclass
class Body:
    """One drone as a driver.

    Attributes:
        draw: Says how high it climbs, where calls fail, and what else is left to chance.
        fails: How likely a call is cut short, somewhere on its way.
        off: How far it is from where it says that it is.
        told: Called with everything that it was told and has done, or begun.
    """

    draw: random.Random
    fails: float
    off: Place
    told: Callable[[Told], None]
    place: Place = (0.0, 0.0, 0.0)
    heading_deg: float = 0.0
    charge: float = 100.0
    speed: float = 0.5
    _places: list[Place] = field(default_factory=list)

    async def connect(self) -> None:
        """Need nothing."""

    async def close(self) -> None:
        """Need nothing."""

    async def safe(self) -> None:
        """Hover, or land by itself a little later."""
        if self.draw.random() < 0.5:
            self.place = (*self.place[:2], 0.0)

    async def execute(self, call: Call, scene: Scene) -> CallValue:
        """Do a call, or a part of it."""
        self._places = [self.place]
        on_ground, charge = self.place[2] == 0.0, self.charge
        self.charge = max(0.0, self.charge - self.draw.uniform(0, 3))
        try:
            self._do(call, scene, self.draw.random() if self.draw.random() < self.fails else 1.0)
        finally:
            self.place = self._places[-1]
            self.told(Told(call, scene, self._places, on_ground, charge))
        return self.draw.random() < 0.5 if call.skill == 'is_visible' else None

    def _do(self, call: Call, scene: Scene, share: float) -> None:
        amount: Any = call.arguments[0].value if call.arguments else 0.0
        x, y, z = self.place
        match call.skill:
            case 'takeoff':
                if z == 0.0:
                    self._go((x, y, self.draw.uniform(0.5, 1.2)), share)
            case 'land':
                self._go((x, y, 0.0), share)
            case 'move_up':
                self._go((x, y, z + amount), share)
            case 'move_down':
                self._go((x, y, z - amount), share)
            case 'turn_cw' | 'turn_ccw' as turn:
                sign = -1 if turn == 'turn_cw' else 1
                self.heading_deg += sign * share * math.degrees(amount)
            case 'scan':
                self.heading_deg -= 360 * share
            case 'goto':
                item = scene.get(str(amount))
                assert item is not None
                ahead, aside = item.x_m - x, item.y_m - y
                if math.hypot(ahead, aside) - 0.5 >= 0.2:
                    self.heading_deg = math.degrees(math.atan2(aside, ahead))
                    self._fly(self.heading_deg, math.hypot(ahead, aside) - 0.5, share)
            case skill if skill in ASIDE:
                self._fly(self.heading_deg + ASIDE[skill], amount, share)
        if share < 1:
            raise SkillFailedError(f'{call.text}: cut short')

    def _fly(self, bearing_deg: float, distance: float, share: float) -> None:
        x, y, z = self.place
        angle = math.radians(bearing_deg)
        self._go((x + distance * math.cos(angle), y + distance * math.sin(angle), z), share)

    def _go(self, to: Place, share: float) -> None:
        x, y, z = (a + share * (b - a) for a, b in zip(self.place, to, strict=True))
        self._places.append((x, y, z))


class ChargedBody(Body):
    """A body that tells its charge."""

    @property
    def battery_percent(self) -> float | None:
        """What is left; now and then nothing was heard."""
        return None if self.draw.random() < 0.05 else self.charge

    @property
    def speed_m_s(self) -> float:
        """How fast it flies."""
        return self.speed


class LocatedBody(ChargedBody):
    """A body that also tells where it is, as well as it knows."""

    @property
    def pose(self) -> Pose | None:
        """Where it believes to be; now and then it does not know."""
        if self.draw.random() < 0.05:
            return None
        x, y, z = (a + b for a, b in zip(self.place, self.off, strict=True))
        return Pose(x, y, z, math.radians(self.heading_deg))
