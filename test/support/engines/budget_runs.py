"""A task with a time budget from a planner to a robot, on an engine that is there."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from timely_llm_ros.budget.task_budget import BudgetOptions
from timely_llm_ros.clock import WallClock
from timely_llm_ros.drivers import SimulatedDriver, SimulatedOptions
from timely_llm_ros.errors import Ending
from timely_llm_ros.execution import LocalRobotLink, SegmentExecutor
from timely_llm_ros.planner import PlannerConfig, Task, TaskAccepted
from timely_llm_ros.planner.events import TaskEnded
from timely_llm_ros.planner.planner import Planner
from timely_llm_ros.sample_tasks.generator import sample_task
from timely_llm_ros.skills.durations import ConstantDuration
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines.engine import Engine

AMPLE_S = 3600.0
LIMIT_S = 120.0


async def serve_budgets(
    engine: Engine, budgets_s: Sequence[float]
) -> tuple[list[TaskAccepted], list[TaskEnded]]:
    """Give one robot a task after the other, each with its time budget; return what was said.

    Raises:
        TaskRefusedError: A budget cannot be met.
    """
    sample = sample_task(random.Random(0), 6, 8)
    skill_set = find_skill_set(sample.skill_set)
    quick = {
        name: replace(skill, duration=ConstantDuration(0.001))
        for name, skill in skill_set.skills.items()
    }
    skill_set = replace(skill_set, skills=quick)
    accepted: list[TaskAccepted] = []
    ended: list[TaskEnded] = []
    news = asyncio.Event()

    def on_event(event: Any) -> None:
        if isinstance(event, TaskAccepted):
            accepted.append(event)
        if isinstance(event, TaskEnded):
            ended.append(event)
            news.set()

    clock = WallClock()
    executor = SegmentExecutor(
        SimulatedDriver(skill_set, SimulatedOptions(seed=1)), skill_set, clock
    )
    planner = Planner(
        engine=engine,
        robots={'robot': LocalRobotLink(executor, clock, latency_s=0.0)},
        skill_sets={skill_set.name: skill_set},
        clock=clock,
        on_event=on_event,
        config=PlannerConfig(budgets=BudgetOptions(), max_running=2),
    )
    await executor.start()
    info = await planner.start()
    try:
        assert info.times is not None
        for number, budget_s in enumerate(budgets_s):
            news.clear()
            planner.submit(planner.prepare(
                Task(
                    f'budget{number}', 'robot', skill_set.name, sample.instruction, sample.scene,
                    NORMAL, time_budget_s=budget_s,
                )
            ))  # fmt: skip
            async with asyncio.timeout(LIMIT_S):
                await news.wait()
    finally:
        await planner.close()
    return accepted, ended


def check_budgets(accepted: Sequence[TaskAccepted], ended: Sequence[TaskEnded]) -> None:
    """Each was predicted, generated in its time and executed."""
    assert len(accepted) == len(ended) > 0
    for event, end in zip(accepted, ended, strict=True):
        assert event.budgeted is not None
        budget = event.budgeted.budget
        assert 0 < budget.expected_s <= budget.worst_s < AMPLE_S
        assert end.result.ending == Ending()
        assert end.result.budget is not None
        assert end.result.segments > 0
        assert 0 < end.result.tokens <= budget.max_tokens
        assert 0 < end.result.generation_s < AMPLE_S
