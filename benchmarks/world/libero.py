"""LIBERO's tasks on a table of the world: those that fit on it, and what the others ask for.

A table of the world has things of one size to grip, and boxes to put them in, so a task fits whose
goal is that things lie in a basket. An arm with physics does its right plan, and the world judges.
What does not fit is counted by the first thing asked for that no table has: drawers, doors, stoves,
shelves and plates among others.

    python -m benchmarks.world.libero
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.progress import track

from benchmarks.common import Target, arguments, running_fleet, save
from benchmarks.world.arm_driver import ArmDriver
from benchmarks.world.driver import live
from benchmarks.world.flights import LIMITS
from timely_llm_ros.clock import LoopClock
from timely_llm_ros.engines.simulated import SimulatedConfig, SimulatedEngine
from timely_llm_ros.evaluation.suites import Libero, SuiteArchives, suite_folder
from timely_llm_ros.planner import Task
from timely_llm_ros.sample_tasks import CONTAINERS
from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL
from timely_llm_ros.virtual_time import run_virtual
from timely_llm_ros.world import ArmReach, Bay, Verdict, World, WorldTask, arrange_table

if TYPE_CHECKING:
    from timely_llm_ros.evaluation.suites import SuiteTask

ARM = 'arm_1'
_CALL = re.compile(r'(\w+)\((\w+)\);')


@dataclass(frozen=True, slots=True)
class Laid:
    """A task of LIBERO as a table of the world has it.

    Attributes:
        instruction: In words.
        scene: What lies on the table, and where.
        stored: Names of things, each with the box that it is to lie in.
    """

    instruction: str
    scene: Scene
    stored: tuple[tuple[str, str], ...]

    @property
    def plan(self) -> str:
        """The right plan, in calls of ``skills/arm.yaml``."""
        return ''.join(f'pick({thing});place({box});' for thing, box in self.stored) + 'home;'


def lay(task: SuiteTask) -> Laid | str:
    """Return a task as a table has it, or what it lacks for it."""
    calls = _CALL.findall(task.gold)
    stored, picked = [], ''
    for skill, target in calls:
        item = _require(task.scene, target)
        if skill == 'pick':
            picked = target
            continue
        place = _require(task.scene, item.support) if item.relation == 'in' else item
        if skill != 'place_in' or place.kind not in CONTAINERS:
            verb = {'place_in': 'in', 'place_on': 'on'}.get(skill, skill)
            return f'{verb} {place.kind}'.replace('_', ' ')
        stored.append((picked, place.name))
    # Parts of a thing are in it, and a table is on the floor.
    loose = [item for item in task.scene.objects if item.relation == 'on' and _lies(item)]
    scene = arrange_table(
        Scene(tuple(replace(item, relation='on', support='table') for item in loose))
    )
    return Laid(task.instruction, scene, tuple(stored))


def _require(scene: Scene, name: str) -> SceneObject:
    item = scene.get(name)
    assert item is not None, name  # noqa: S101 (a right plan names what is there)
    return item


def _lies(item: SceneObject) -> bool:
    return 'table' not in item.kind and item.kind != 'floor'


def fly_libero() -> tuple[dict[str, Verdict], Counter[str]]:
    """Have an arm do each task that fits; return the world's verdicts, and what others lack."""
    libero = Libero(SuiteArchives(suite_folder()))
    verdicts, lacks = {}, Counter[str]()
    for name in track(libero.names(), 'tasks'):
        laid = lay(libero.task(name))
        if isinstance(laid, str):
            lacks[laid] += 1
        else:
            verdicts[name] = run_virtual(_do(laid))
    return verdicts, lacks


async def _do(laid: Laid) -> Verdict:
    found: list[Verdict] = []
    clock, arm = LoopClock(), find_skill_set('arm')
    world = World([Bay(ARM, laid.scene, 'arm')], on_verdict=found.append)
    living = asyncio.create_task(live(world, (), clock))
    engine = SimulatedEngine(SimulatedConfig(plan_text=lambda _: laid.plan))
    drivers = {ARM: ArmDriver(world, ARM, clock, ArmReach())}
    async with running_fleet(engine, [ARM], arm, clock, drivers=drivers, limits=LIMITS) as planner:
        world.begin(WorldTask('t', ARM, 'sort', stored=laid.stored))
        task = Task('t', ARM, 'arm', laid.instruction, laid.scene, NORMAL)
        await planner.submit(planner.prepare(task)).result()
        world.end('t')
        while not found:
            await clock.sleep(0.5)
    living.cancel()
    await asyncio.wait({living})
    return found[0]


def main() -> int:
    options = arguments(__doc__).parse_args()
    verdicts, lacks = fly_libero()
    failed = {name: verdict.why for name, verdict in verdicts.items() if not verdict.succeeded}
    succeeded = len(verdicts) - len(failed)
    print(f'{len(verdicts)} of {len(verdicts) + lacks.total()} tasks fit, {succeeded} succeeded')
    for name, why in failed.items():
        print(f'  {name}: {why}')
    print(
        'the others ask for:', ', '.join(f'{what} {count}' for what, count in lacks.most_common())
    )
    figures = {
        'tasks': len(verdicts) + lacks.total(),
        'fit': len(verdicts),
        'succeeded': succeeded,
        'failed': failed,
        'others_ask_for': dict(lacks.most_common()),
    }
    target = Target(
        'share of those that fit that succeed by the world', succeeded / len(verdicts), '>=', 0.9
    )
    save('libero', figures, [target], path=options.json)
    return 0


if __name__ == '__main__':
    sys.exit(main())
