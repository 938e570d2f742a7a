"""A table with an arm, and plans that it works on virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from support.robots.worlds import do_calls

from benchmarks.world import ArmDriver, live
from timely_llm_ros.clock import LoopClock
from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.virtual_time import run_virtual
from timely_llm_ros.world import ArmReach, Bay, World, WorldOptions, arrange_table

if TYPE_CHECKING:
    from timely_llm_ros.world import WorldTask

ARM = find_skill_set('arm')
REACH = ArmReach()

SCENE = arrange_table(
    Scene(
        (
            SceneObject('block_1', 'block', 'red'),
            SceneObject('block_2', 'block', 'blue'),
            SceneObject('block_3', 'block', 'green'),
            SceneObject('apple_1', 'apple'),
            SceneObject('bin_1', 'bin'),
            SceneObject('desk_1', 'desk'),
        )
    )
)


def make_table(scene: Scene = SCENE, **options: float) -> World:
    return World([Bay('a1', scene, 'arm')], WorldOptions(**options))  # type: ignore[arg-type]


def work(
    world: World, plan: str, scene: Scene = SCENE, *, task: WorldTask | None = None
) -> list[object]:
    """Have the arm do a plan; return what its skills returned, or why they failed."""

    async def main() -> list[object]:
        clock = LoopClock()
        driver = ArmDriver(world, 'a1', clock, REACH)
        living = asyncio.create_task(live(world, [], clock))
        if task is not None:
            world.begin(task)
        await clock.sleep(0.1)
        try:
            values = await do_calls(driver, plan, ARM, scene)
            if task is not None:
                world.end(task.key)
        finally:
            living.cancel()
            await asyncio.wait({living})
        return values

    return run_virtual(main())


def verdicts(world: World) -> list[str]:
    return [event.detail for event in world.log.events if event.event == 'verdict']
