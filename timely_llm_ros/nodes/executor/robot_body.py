"""What it takes to bring a robot to its safe action, in a form that outlives a process."""

from __future__ import annotations

import asyncio
import json
import mmap
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from timely_llm_ros.nodes.executor.driver_factory import make_driver
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from timely_llm_ros.execution import Driver
    from timely_llm_ros.skills import SkillSet

_SIZE = 1 << 18


@dataclass(frozen=True, slots=True)
class RobotBody:
    """How one robot is driven.

    Attributes:
        robot: Its name.
        skill_set: Name of a shipped skill set, or a path.
        driver: Name of its driver.
        options: The driver's keyword options.
        perception: Name of its eyes; empty for a driver that has none.
        namespace: Namespace of its fleet.
    """

    robot: str
    skill_set: str
    driver: str
    options: dict[str, Any]
    perception: str = ''
    namespace: str = ''

    def make_driver(self, skill_set: SkillSet, **more: Any) -> Driver:
        """Return its driver, not yet connected.

        Args:
            skill_set: Its skills.
            more: Further options, which need not be plain values.

        Raises:
            ConfigurationError: The driver does not take an option or its value.
        """
        return make_driver(
            self.driver,
            skill_set,
            robot=self.robot,
            namespace=self.namespace,
            options={**self.options, **more},
        )

    async def make_safe(self) -> None:
        """Open a driver of its own, issue the safe action and release the robot."""
        driver = self.make_driver(find_skill_set(self.skill_set))
        await driver.connect()
        try:
            await driver.safe()
        finally:
            with suppress(Exception):
                await driver.close()


class SharedBodies:
    """The robots of a worker, known to its guard too: memory that both processes share."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)

    def remember(self, bodies: list[RobotBody]) -> None:
        """Have both processes know the robots from now on."""
        text = json.dumps(list(map(asdict, bodies))).encode()
        if len(text) >= _SIZE:
            raise ValueError(f'{len(text)} bytes: expected less than {_SIZE}')
        self._memory.seek(0)
        self._memory.write(text + b'\0')

    def prepare(self) -> None:
        """Import what making the robots safe takes."""
        for body in self._bodies():
            body.make_driver(find_skill_set(body.skill_set))

    async def make_safe(self) -> None:
        """Bring every robot to its safe action; the others too where one fails."""
        results = await asyncio.gather(
            *(body.make_safe() for body in self._bodies()), return_exceptions=True
        )
        failed = [result for result in results if isinstance(result, BaseException)]
        if failed:
            raise failed[0]

    def _bodies(self) -> list[RobotBody]:
        self._memory.seek(0)
        text = self._memory.read().split(b'\0', 1)[0].decode()
        return [RobotBody(**item) for item in json.loads(text)] if text else []
