"""What the planner's tasks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.engines import Engine
    from timely_llm_ros.planner.config import PlannerConfig
    from timely_llm_ros.planner.events import PlannerEvent
    from timely_llm_ros.planner.permission import Approvals
    from timely_llm_ros.planner.task_group import TaskGroup


@dataclass(frozen=True, slots=True)
class PlannerContext:
    """The parts of the planner that each of its tasks works with; ``emit`` never raises.

    ``demand`` tells how much of the engine is asked for; above 1 it is more than there is.
    ``approvals`` has the segments that wait for somebody's word.
    """

    engine: Engine
    clock: Clock
    group: TaskGroup
    emit: Callable[[PlannerEvent], None]
    config: PlannerConfig
    demand: Callable[[], float]
    approvals: Approvals
