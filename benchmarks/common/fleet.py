"""A planner and simulated robots around an engine, for as long as a benchmark serves."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from timely_llm_ros.drivers import SimulatedDriver, SimulatedOptions
from timely_llm_ros.execution import ExecutorLimits, LocalRobotLink, SegmentExecutor
from timely_llm_ros.planner import Planner
from timely_llm_ros.skills import SkillSet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.engines import Engine
    from timely_llm_ros.execution import Driver

LIMITS = ExecutorLimits(progress_period_s=None)
"""Of robots whose progress nobody watches."""


@asynccontextmanager
async def running_fleet(
    engine: Engine,
    robots: Iterable[str],
    skill_set: SkillSet | Mapping[str, SkillSet],
    clock: Clock,
    *,
    network_s: float = 0.0,
    drivers: Mapping[str, Driver] | None = None,
    limits: ExecutorLimits = LIMITS,
    **options: Any,
) -> AsyncIterator[Planner]:
    """Yield a planner that has started; close it and its robots at the end.

    Args:
        engine: What generates the plans.
        robots: Names of the robots.
        skill_set: What every robot can do, or by robot.
        clock: What planner and robots see time through.
        drivers: The robots' drivers; by default each is simulated, with a seed of its own.
        network_s: One-way time from the engine to a robot (s).
        limits: Of every robot's executor.
        options: Further ones of the planner.
    """
    robots = tuple(robots)
    able = dict.fromkeys(robots, skill_set) if isinstance(skill_set, SkillSet) else skill_set
    executors = {
        robot: SegmentExecutor(
            drivers[robot]
            if drivers is not None
            else SimulatedDriver(able[robot], SimulatedOptions(seed=number), clock=clock),
            able[robot],
            clock,
            limits,
        )
        for number, robot in enumerate(robots)
    }
    planner = Planner(
        engine=engine,
        robots={
            robot: LocalRobotLink(executor, clock, latency_s=network_s)
            for robot, executor in executors.items()
        },
        skill_sets={one.name: one for one in able.values()},
        clock=clock,
        **options,
    )
    for executor in executors.values():
        await executor.start()
    await planner.start()
    try:
        yield planner
    finally:
        await planner.close()
        for executor in executors.values():
            await executor.close()
