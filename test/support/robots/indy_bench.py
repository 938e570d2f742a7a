"""A mock Indy, its driver and an executor, and waiting for what the mock's own record says."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from timely_llm_ros.clock import WallClock
from timely_llm_ros.drivers.indy import IndyDriver, IndyOptions
from timely_llm_ros.errors import RobotUnavailableError
from timely_llm_ros.execution import ExecutorLimits, SegmentExecutor
from timely_llm_ros.skills import Segment
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.scene import Scene, SceneObject

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from timely_llm_ros.drivers.indy.mock.arm import MockIndy
    from timely_llm_ros.execution import SegmentOutcome

ARM = find_skill_set('arm')
DEFAULT_LIMITS = ExecutorLimits()
SCENE = Scene(
    (
        SceneObject('cup_1', 'cup', x_m=0.4, y_m=0.0, z_m=0.05),
        SceneObject('box_1', 'box', x_m=0.3, y_m=-0.2, z_m=0.1),
        SceneObject('ball_1', 'ball', x_m=1.5, y_m=0.0, z_m=0.0),
    )
)
LIMIT_S = 60.0
"""How long anything may take (s). Far more than it does: a busy machine is no failure."""

PATIENT = IndyOptions(answer_limit_s=5.0, link_limit_s=20.0)
"""Options of a driver that does not take a busy machine for a lost link."""


class IndyBench:
    """One mock with a driver and an executor; made anew for every test, the mock is not."""

    def __init__(self, mock: MockIndy, limits: ExecutorLimits, **options: Any) -> None:
        self.mock = mock
        self.reset()
        self.driver = IndyDriver(
            ARM, replace(PATIENT, **{'host': mock.host, 'gripper_s': 0.01, **options})
        )
        self.executor = SegmentExecutor(self.driver, ARM, WallClock(), limits)

    def reset(self) -> None:
        """Have the arm stand at home, and forget what it did."""
        self.mock.command('reset')
        self._before = len(self.mock.record)

    def run(self, text: str, plan: str = 'p') -> asyncio.Task[SegmentOutcome]:
        segment = Segment(0, text, parse(text, ARM, SCENE), 1)
        return asyncio.get_running_loop().create_task(
            self.executor.execute(plan, segment, SCENE, lambda _: None)
        )

    def lose_patience(self, link_limit_s: float) -> None:
        """Take so short a silence for a lost link from now on."""
        arm = self.driver._arm
        arm._options = replace(arm._options, link_limit_s=link_limit_s)

    @property
    def record(self) -> list[dict[str, Any]]:
        return self.mock.record[self._before :]

    @property
    def names(self) -> list[str]:
        return [str(event['event']) for event in self.record]

    @property
    def ends(self) -> list[list[float]]:
        """Where the motions go, rounded: points (mm) or, in six numbers, joint angles (deg)."""
        return [
            [round(value) for value in (event['end'] if event['joints'] else event['end'][:3])]
            for event in self.record
            if event['event'] == 'move'
        ]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        end_s = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < end_s, f'{what}: {self.record}'
            await asyncio.sleep(0.02)

    async def until_moving(self) -> None:
        await self.until(lambda: 'move' in self.names, 'a motion')

    async def until_back(self) -> None:
        """Connect again, as often as it takes."""
        end_s = time.monotonic() + LIMIT_S
        while not self.executor.connected:
            with contextlib.suppress(RobotUnavailableError):
                await self.executor.start()
            assert time.monotonic() < end_s, 'not connected again'

    async def until_still(self) -> None:
        await self.until(lambda: self.mock.stands_still, 'standing still')


def on_arm(
    mock: MockIndy,
    body: Callable[[IndyBench], Awaitable[None]],
    limits: ExecutorLimits = DEFAULT_LIMITS,
    **options: Any,
) -> None:
    """Run a test's body with a connected executor."""

    async def main() -> None:
        bench = IndyBench(mock, limits, **options)
        await bench.executor.start()
        try:
            await body(bench)
        finally:
            await bench.executor.close()

    asyncio.run(main())
