"""What the planner gives to the tasks that it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.engines import Engine
    from timely_llm_ros.planner.events import PlannerEvent
    from timely_llm_ros.planner.task_group import Background


@dataclass(frozen=True, slots=True)
class Services:
    """What a task's run needs of its planner.

    Attributes:
        engine: Generates.
        clock: Tells the time.
        background: Keeps asyncio tasks.
        emit: Takes events; never raises.
        max_tokens: Length limit of a generation.
        constrained: Whether the skill set's grammar masks the model's choices.
        stop_limit_s: How long a robot may take to confirm that it stopped (s).
    """

    engine: Engine
    clock: Clock
    background: Background
    emit: Callable[[PlannerEvent], None]
    max_tokens: int
    constrained: bool
    stop_limit_s: float
