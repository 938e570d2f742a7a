"""A small world, and plans flown in it on virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks.world import WorldDriver, live
from timely_llm_ros.clock import LoopClock
from timely_llm_ros.errors import SkillFailedError
from timely_llm_ros.skills import Call, Scene, SceneObject, parse
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.virtual_time import run_virtual
from timely_llm_ros.world import Bay, World, WorldOptions

if TYPE_CHECKING:
    from benchmarks.world import ArmDriver
    from timely_llm_ros.skills import SkillSet
    from timely_llm_ros.world import WorldTask

TELLO = find_skill_set('tello')

SCENE = Scene(
    (
        SceneObject('cat_1', 'cat', 'black', x_m=3.0, y_m=1.0),
        SceneObject('cup_1', 'cup', 'red', 'under', 'table', x_m=2.5, y_m=-2.0),
        SceneObject('key_1', 'key', 'old', 'in', 'drawer', x_m=-2.0, y_m=-1.0),
        SceneObject('person_1', 'person', x_m=-2.0, y_m=2.0),
    )
)


def make_world(scene: Scene = SCENE, robot: str = 'd1', **options: float) -> World:
    return World([Bay(robot, scene)], WorldOptions(**options))  # type: ignore[arg-type]


async def do_calls(
    driver: WorldDriver | ArmDriver, plan: str, skill_set: SkillSet, scene: Scene
) -> list[object]:
    """Have a driver do a plan without blocks; return values, or why calls failed."""
    values: list[object] = []
    for call in parse(plan, skill_set, scene) if plan else ():
        assert isinstance(call, Call)
        try:
            values.append(await driver.execute(call, scene))
        except SkillFailedError as err:
            values.append(err)
    return values


def fly(
    world: World,
    plan: str,
    scene: Scene = SCENE,
    *,
    robot: str = 'd1',
    task: WorldTask | None = None,
    late_s: float = 0.0,
    stay_s: float = 0.0,
) -> list[object]:
    """Fly a plan; return what its skills returned. ``stay_s`` passes after it."""

    async def main() -> list[object]:
        clock = LoopClock()
        driver = WorldDriver(world, robot, clock)
        living = asyncio.create_task(live(world, [driver], clock))
        await driver.connect()
        if task is not None:
            world.begin(task)
        await clock.sleep(late_s)
        try:
            values = await do_calls(driver, plan, TELLO, scene)
            if task is not None:
                world.end(task.key)
            await clock.sleep(stay_s)
        finally:
            living.cancel()
            await asyncio.wait({living})
        return values

    return run_virtual(main())
