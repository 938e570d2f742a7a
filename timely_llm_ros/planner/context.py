"""The parts of the planner that its tasks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.engines import Engine
    from timely_llm_ros.planner.config import PlannerConfig
    from timely_llm_ros.planner.events import PlannerEvent
    from timely_llm_ros.planner.task_group import TaskGroup


@dataclass(frozen=True, slots=True)
class PlannerContext:
    """The parts of the planner that each of its tasks works with.

    Attributes:
        engine: Generates.
        clock: Tells the time.
        group: Keeps asyncio tasks.
        emit: Takes events; never raises.
        config: The planner's options.
    """

    engine: Engine
    clock: Clock
    group: TaskGroup
    emit: Callable[[PlannerEvent], None]
    config: PlannerConfig
