"""Drives an arm of the world without a network, on any clock: for runs as fast as they go.

Its skills are the steps of the calls file ``moveit``, asked of the ``MoveGroup`` that serves the
actions; only the messages are left out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from timely_llm_ros.errors import SkillFailedError
from timely_llm_ros.world import ArmReach, MoveGroup

if TYPE_CHECKING:
    from timely_llm_ros.clock import Clock
    from timely_llm_ros.execution import CallValue
    from timely_llm_ros.skills import Call, Scene
    from timely_llm_ros.world import World

TICK_S = 0.02
"""How often it is looked whether a motion has ended (s)."""

SPEED = 0.2
"""Share of the joints' greatest speed, as in the calls file."""

OPEN, CLOSED = 'open', 'closed'

# Of each skill: the fingers, or how high above the middle of which argument the hand goes (m) and
# how far short of it (m).
_STEPS: dict[str, tuple[str | tuple[int, float, float], ...]] = {
    'pick': (OPEN, (0, 0.25, 0.0), (0, 0.1, 0.0), CLOSED, (0, 0.25, 0.0)),
    'place': ((0, 0.25, 0.0), (0, 0.15, 0.0), OPEN, (0, 0.25, 0.0)),
    'wipe': (CLOSED, (0, 0.25, 0.05), (0, 0.1, 0.05), (0, 0.1, -0.05), (0, 0.25, -0.05)),
    'sort_into': (
        OPEN, (0, 0.25, 0.0), (0, 0.1, 0.0), CLOSED, (0, 0.25, 0.0), (1, 0.25, 0.0), OPEN,
    ),
    'open_gripper': (OPEN,),
    'close_gripper': (CLOSED,),
}  # fmt: skip


class ArmDriver:
    """Makes one arm of a world do skills of ``skills/arm.yaml``.

    Args:
        world: Where it is. Somebody lets its time pass.
        robot: Its name.
        clock: The clock that it lives on.
        reach: Its inverse kinematics.
    """

    def __init__(self, world: World, robot: str, clock: Clock, reach: ArmReach) -> None:
        self._world, self._robot, self._clock, self._reach = world, robot, clock, reach
        self._group = MoveGroup(world, robot, reach)
        self._seen: dict[str, tuple[float, float, float]] = {}

    async def connect(self) -> None:
        """Do nothing: it is there."""

    async def close(self) -> None:
        """Leave it where it is."""

    async def execute(self, call: Call, scene: Scene) -> CallValue:
        """Do one skill."""
        if call.skill == 'home':
            await self._go(self._world.arms[self._robot].rest_rad)
            return None
        if call.skill not in _STEPS:
            raise SkillFailedError(f'skill {call.skill!r}: expected one of {", ".join(_STEPS)}')
        names = [str(argument.value) for argument in call.arguments]
        for one in self._world.cameras[self._robot].look():
            self._seen[one.label] = one.position_m
        known = [scene.get(name) for name in names]
        places = [
            self._seen.get(item.name, (item.x_m, item.y_m, item.z_m)) for item in known if item
        ]
        for step in _STEPS[call.skill]:
            if isinstance(step, str):
                self._group.grip(0.04 if step == OPEN else 0.0)
                continue
            number, above_m, short_m = step
            x_m, y_m, z_m = places[number]
            way_m = math.hypot(x_m, y_m)
            share = (way_m - short_m) / way_m
            joints = self._reach.solve((x_m * share, y_m * share, z_m + above_m))
            if joints is None:
                raise SkillFailedError(f'{call.text}: expected {names[number]} within reach')
            await self._go(joints)
        return None

    async def safe(self) -> None:
        """Have it hold where it is."""
        self._group.stop()

    async def _go(self, joints_rad: list[float]) -> None:
        arm = self._world.arms[self._robot]
        arm.move(self._world.now_s, joints_rad, arm.least_s(joints_rad, SPEED))
        while (code := self._group.ended()) is None:
            await self._clock.sleep(TICK_S)
        if code < 0:
            raise SkillFailedError(f'the arm did not arrive: error code {code}')
