"""A fleet in a world, planned on virtual time, and how the world judged its tasks."""

from __future__ import annotations

import asyncio
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.common import running_fleet
from benchmarks.world.arm_driver import ArmDriver
from benchmarks.world.driver import WorldDriver, live
from timely_llm_ros.clock import LoopClock
from timely_llm_ros.demo import Robot, TimedTask, make_rooms, make_workload
from timely_llm_ros.engines.simulated import SimulatedConfig, SimulatedEngine
from timely_llm_ros.errors import TimelyError
from timely_llm_ros.execution import ExecutorLimits
from timely_llm_ros.planner import Task
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.virtual_time import run_virtual
from timely_llm_ros.world import (
    ArmReach,
    Bay,
    Verdict,
    World,
    WorldOptions,
    WorldTask,
    arrange,
    arrange_table,
    survey,
)

if TYPE_CHECKING:
    from timely_llm_ros.engines import GenerationRequest
    from timely_llm_ros.scheduling import ServingMode

DRONES, ARMS, TASKS = 24, 8, 100
"""Of one world. A round has as many tasks; a round more is another world with another seed."""

MAX_RUNNING = 2
"""Generations that the engine runs at once, as in the demo."""

AFTER_S = 12.0
"""How long the world lives on after the last task: whoever comes towards a drone arrives (s)."""

LIMITS = ExecutorLimits(progress_period_s=None, timeout_margin_s=60.0)
_OBSERVATION = re.compile(r'#[^ ]* ')


@dataclass(frozen=True, slots=True)
class Serving:
    """A way to serve plans."""

    name: str
    mode: ServingMode
    policy: str


SEGMENTED = Serving('segmented', 'segmented', 'least_loss')
WHOLE_PLAN = Serving('whole plan', 'whole_plan', 'fcfs')


@dataclass(frozen=True, slots=True)
class Judged:
    """One task and what came of it.

    Attributes:
        kind: Name of its kind.
        verdict: The world's; None where the task was refused or failed before the world knew.
        error: Why the planner or the robot gave it up; empty if they did not.
        hits: How many things its drone touched.
    """

    kind: str
    verdict: Verdict | None
    error: str
    hits: int = 0

    @property
    def succeeded(self) -> bool:
        return self.verdict is not None and self.verdict.succeeded


def fly(serving: Serving, seed: int, noise: float = 0.0, tasks: int = TASKS) -> list[Judged]:
    """Serve a round of tasks; return what became of each."""
    judged, _ = fly_logged(serving, seed, noise, tasks)
    return judged


def fly_logged(
    serving: Serving, seed: int, noise: float = 0.0, tasks: int = TASKS
) -> tuple[list[Judged], str]:
    """Serve a round of tasks; return what became of each, and all that happened in the world."""
    drones = [Robot(f'drone_{number + 1}', 'tello') for number in range(DRONES)]
    robots = (*drones, *(Robot(f'arm_{number + 1}', 'arm') for number in range(ARMS)))
    rooms = make_rooms(robots, seed, {'tello': arrange, 'arm': arrange_table})
    workload = make_workload(robots, tasks, seed, rooms)
    options = WorldOptions(seed=seed, noise=noise)
    verdicts: dict[str, Verdict] = {}
    world = World(
        [
            Bay(robot.name, rooms[robot], 'arm' if robot.skill_set == 'arm' else 'drone')
            for robot in robots
        ],
        options,
        on_verdict=lambda verdict: verdicts.update({verdict.key: verdict}),
    )
    errors = run_virtual(_serve(world, serving, workload, options))
    found = []
    for task in workload:
        verdict = verdicts.get(task.key)
        hits = 0 if verdict is None else len(verdict.hits)
        found.append(Judged(task.kind, verdict, errors.get(task.key, ''), hits))
    return found, world.log.text


async def _serve(
    world: World, serving: Serving, workload: tuple[TimedTask, ...], options: WorldOptions
) -> dict[str, str]:
    clock = LoopClock()
    reach = ArmReach()
    flying = {
        robot: WorldDriver(world, robot, clock) for robot in world.robots if robot not in world.arms
    }
    arms = {robot: ArmDriver(world, robot, clock, reach) for robot in world.arms}
    living = asyncio.create_task(live(world, flying.values(), clock))
    able = {robot: find_skill_set('arm' if robot in arms else 'tello') for robot in world.robots}
    plans = {task.key: _OBSERVATION.sub('', task.sample.plan) for task in workload}

    def plan_of(request: GenerationRequest) -> str:
        return plans[request.generation_id]

    engine = SimulatedEngine(
        SimulatedConfig(
            plan_text=plan_of, mode=serving.mode, policy=serving.policy, max_running=MAX_RUNNING
        )
    )
    errors: dict[str, str] = {}
    async with running_fleet(
        engine, world.robots, able, clock, drivers={**flying, **arms}, limits=LIMITS
    ) as planner:

        async def do(task: TimedTask, number: int) -> None:
            await clock.sleep(task.at_s - clock.now())
            world.begin(WorldTask.of(task.key, task.robot, task.sample))
            record = Task(
                task.key,
                task.robot,
                task.sample.skill_set,
                task.sample.instruction,
                survey(
                    task.sample.scene,
                    options,
                    number,
                    body='arm' if task.robot in arms else 'drone',
                ),
                task.utility,
                when_busy='queue',
                task_kind=task.kind,
            )
            try:
                result = await planner.submit(planner.prepare(record)).result()
                if result.ending.code:
                    errors[task.key] = result.ending.message
            except TimelyError as err:
                errors[task.key] = str(err)
            world.end(task.key)

        await asyncio.gather(*(do(task, number) for number, task in enumerate(workload)))
        await clock.sleep(AFTER_S)
    living.cancel()
    await asyncio.wait({living})
    return errors


def busy_world(robots: int, seed: int = 0) -> tuple[World, list[WorldDriver]]:
    """Return a world of so many drones in furnished bays, for timing it."""
    rng = random.Random(seed)
    names = tuple(Robot(f'drone_{number + 1}', 'tello') for number in range(robots))
    rooms = make_rooms(names, rng.randrange(1 << 30), {'tello': arrange})
    world = World([Bay(robot.name, rooms[robot]) for robot in names])
    return world, [WorldDriver(world, robot.name, LoopClock()) for robot in names]
