"""What the planner's tasks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.engines import EngineFailed, EngineStateChanged, GenerationEnded

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
        self._kv_tokens: dict[str, int] = {}

    def hear(self, event: EngineEvent) -> None:
        """Note an event; that it failed or gave up a generation is no answer."""
        match event:
            case EngineFailed() | GenerationEnded(reason='canceled' | 'error' | 'worthless'):
                return
            case EngineStateChanged(state) if state.servers:
                # It says such by itself, whoever is silent; only tokens show that a server is not.
                # The prompt of one that is chosen counts at once, before any server has it.
                known = self._kv_tokens
                self._kv_tokens = {it.generation_id: it.kv_tokens for it in state.generations}
                if not any(0 < known.get(it, 0) < count for it, count in self._kv_tokens.items()):
                    return
        self._heard_s = self._clock.now()

    async def silence(self, limit_s: float, since_s: Callable[[], float]) -> None:
        """Wait until nothing was heard for so long (s) since a time, which may move on."""
        while (left_s := max(since_s(), self._heard_s) + limit_s - self._clock.now()) > 0:
            await self._clock.sleep(left_s)


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
