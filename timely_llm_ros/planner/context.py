"""What the planner gives to the tasks that it runs."""

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
    """What a task's run needs of its planner.

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
