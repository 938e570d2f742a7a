"""What the planner's tasks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.engines import EngineFailed, EngineStateChanged

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.engines import Engine, EngineEvent
    from timely_llm_ros.planner.config import PlannerConfig
    from timely_llm_ros.planner.events import PlannerEvent
    from timely_llm_ros.planner.permission import Approvals
    from timely_llm_ros.planner.task_group import TaskGroup


class EngineEar:
    """Knows when the engine was last heard of."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._heard_s = clock, clock.now()

    def hear(self, event: EngineEvent) -> None:
        """Note an event; that it failed or that none of its servers is well is no answer."""
        match event:
            case EngineFailed():
                return
            case EngineStateChanged(state) if state.servers:
                if not any(server.well for server in state.servers):
                    return
        self._heard_s = self._clock.now()

    async def silence(self, limit_s: float, excused: Callable[[], bool]) -> None:
        """Wait until nothing was heard for so long (s) since now; excused silence counts not."""
        since_s = self._clock.now()
        while (left_s := max(since_s, self._heard_s) + limit_s - self._clock.now()) > 0:
            await self._clock.sleep(left_s)
            if excused():
                since_s = self._clock.now()


@dataclass(frozen=True, slots=True)
class PlannerContext:
    """The parts of the planner that each of its tasks works with; ``emit`` never raises.

    ``demand`` tells how much of the engine is asked for; above 1 it is more than there is.
    ``approvals`` has the segments that wait for somebody's word, ``ear`` listens to the engine.
    """

    engine: Engine
    clock: Clock
    group: TaskGroup
    emit: Callable[[PlannerEvent], None]
    config: PlannerConfig
    demand: Callable[[], float]
    approvals: Approvals
    ear: EngineEar
