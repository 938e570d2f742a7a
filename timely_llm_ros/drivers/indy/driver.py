"""A Neuromeka Indy through its own SDK, IndyDCP3, which lives in a process of its own.

Every skill is a few motions of the tool between points of the base's frame.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from timely_llm_ros.drivers.call_arguments import number_of, object_of
from timely_llm_ros.drivers.indy.arm import IndyArm
from timely_llm_ros.errors import ConfigurationError, RobotUnavailableError, SkillFailedError
from timely_llm_ros.execution import SafeActionRetry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from timely_llm_ros.drivers.indy.options import IndyOptions
    from timely_llm_ros.execution import CallValue, Perception
    from timely_llm_ros.skills import Call, Scene, SceneObject, SkillSet

WIPE_M = 0.06
"""How far to either side a wipe goes (m)."""

NO_DISTANCE_M = 1e-6
"""No arm can tell a distance this small from nothing (m)."""


class IndyDriver:
    """Drives one Indy with a two-state gripper.

    Args:
        skill_set: The robot's skills: those of ``arm``, or some of them.
        options: How it is driven.
        perception: Sees for ``look_at``; without it that skill fails.

    Raises:
        ConfigurationError: The skill set has a skill that the arm does not.
    """

    def __init__(
        self, skill_set: SkillSet, options: IndyOptions, *, perception: Perception | None = None
    ) -> None:
        self._skill_set, self._options, self._perception = skill_set, options, perception
        self._arm = IndyArm(options)
        self._retry = SafeActionRetry(self._arm.stop)
        self._skills: dict[str, Callable[[Call, Scene], Awaitable[CallValue]]] = {
            'pick': self._pick,
            'place': self._place,
            'push': self._push,
            'move_to': self._move_to,
            'open_gripper': lambda _, __: self._arm.grip('open'),
            'close_gripper': lambda _, __: self._arm.grip('close'),
            'look_at': self._look_at,
            'wipe': self._wipe,
            'sort_into': self._sort_into,
            'home': lambda _, __: self._arm.home(),
            'stop': self._stop,
        }
        for name in skill_set.skills:
            if name not in self._skills:
                raise ConfigurationError(
                    f'skill set {skill_set.name!r}: skill {name!r}: expected one of '
                    f'{", ".join(self._skills)}'
                )

    async def connect(self) -> None:
        """Start the SDK and ask the arm for its state; an arm in violation can be connected too."""
        # The retry would start the SDK too.
        owed = await self._retry.end()
        try:
            await self._arm.connect()
        except RobotUnavailableError:
            if owed:
                self._retry.begin()
            raise

    async def close(self) -> None:
        """End the SDK's process."""
        await self._retry.end()
        await self._arm.close()

    async def execute(self, call: Call, scene: Scene) -> CallValue:
        """Do one skill; when it is cancelled, tell the arm to stop."""
        skill = self._skills.get(call.skill)
        if skill is None:
            raise SkillFailedError(
                f'skill {call.skill!r}: expected one of skill set {self._skill_set.name!r}'
            )
        try:
            return await skill(call, scene)
        except asyncio.CancelledError:
            await self._arm.let_go()
            raise

    async def safe(self) -> None:
        """Stop all motion, smoothly (stop category 2).

        After this has raised, the arm is told again and again until it takes the stop.
        """
        await self._retry.end()
        try:
            await self._arm.stop()
        except RobotUnavailableError:
            self._retry.begin()
            raise

    async def _pick(self, call: Call, scene: Scene) -> None:
        item = object_of(call, scene)
        await self._arm.grip('open')
        await self._over(item)
        await self._arm.line(item.x_m, item.y_m, item.z_m)
        await self._arm.grip('close')
        await self._over(item)

    async def _place(self, call: Call, scene: Scene) -> None:
        item, above_m = object_of(call, scene, -1), self._options.stack_m
        await self._over(item, above_m)
        await self._arm.line(item.x_m, item.y_m, item.z_m + above_m)
        await self._arm.grip('open')
        await self._over(item, above_m)

    async def _sort_into(self, call: Call, scene: Scene) -> None:
        # The first object is taken, the last is where it goes.
        await self._pick(call, scene)
        await self._place(call, scene)

    async def _push(self, call: Call, scene: Scene) -> None:
        item, distance_m = object_of(call, scene), number_of(call, 1)
        along_x, along_y = away_from_base(item.x_m, item.y_m)
        end_x, end_y = item.x_m + distance_m * along_x, item.y_m + distance_m * along_y
        # Asked first, so that nothing moves where the end is out of reach.
        self._options.tool_pose(end_x, end_y, item.z_m)
        await self._arm.grip('close')
        await self._over(item)
        await self._arm.line(item.x_m, item.y_m, item.z_m)
        await self._arm.line(end_x, end_y, item.z_m)
        await self._arm.line(end_x, end_y, item.z_m + self._options.approach_m)

    async def _wipe(self, call: Call, scene: Scene) -> None:
        item = object_of(call, scene)
        await self._over(item)
        for side_m in (0.0, WIPE_M, -WIPE_M, 0.0):
            await self._arm.line(item.x_m, item.y_m + side_m, item.z_m)
        await self._over(item)

    async def _look_at(self, call: Call, scene: Scene) -> bool:
        item = object_of(call, scene)
        if self._perception is None:
            raise SkillFailedError(f'{call.text}: the arm has no perception')
        await self._arm.line(item.x_m, item.y_m, item.z_m + self._options.look_m)
        return item.name in await self._perception.look(scene)

    async def _move_to(self, call: Call, _scene: Scene) -> None:
        await self._arm.line(*(number_of(call, axis) for axis in range(3)))

    async def _stop(self, _call: Call, _scene: Scene) -> None:
        await self._arm.stop()
        await self._arm.stand_still()

    async def _over(self, item: SceneObject, above_m: float = 0.0) -> None:
        height_m = item.z_m + above_m + self._options.approach_m
        await self._arm.line(item.x_m, item.y_m, height_m)


def away_from_base(x_m: float, y_m: float) -> tuple[float, float]:
    """Return the unit vector from the base to a point; straight ahead for the base itself."""
    distance_m = math.hypot(x_m, y_m)
    return (x_m / distance_m, y_m / distance_m) if distance_m > NO_DISTANCE_M else (1.0, 0.0)
