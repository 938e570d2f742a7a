"""A lower bound on how long a task's generation takes, learned from those that ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.engines import GenerationEnded
from timely_llm_ros.planner.events import TaskAccepted, TaskEnded

if TYPE_CHECKING:
    from timely_llm_ros.engines import EngineEvent
    from timely_llm_ros.planner.events import PlannerEvent
    from timely_llm_ros.planner.task import Task


class ShortestGeneration:
    """The least engine time that a whole plan took so far, by skill set.

    A task whose time budget is below it would have to beat every plan before it, so refusing it at
    once serves its client better than overrunning later. Feed it every event of planner and
    engine; ``Planner`` takes :meth:`estimate_s` as its ``estimate_generation_s``.
    """

    def __init__(self) -> None:
        self._skill_sets: dict[str, str] = {}
        self._shortest_s: dict[str, float] = {}

    def on_planner_event(self, event: PlannerEvent) -> None:
        """Remember which generation belongs to which skill set while its task lives."""
        match event:
            case TaskAccepted():
                self._skill_sets[event.task_id] = event.task.skill_set
            case TaskEnded():
                self._skill_sets.pop(event.task_id, None)

    def on_engine_event(self, event: EngineEvent) -> None:
        """Learn from a plan that was generated to its end."""
        if isinstance(event, GenerationEnded) and event.reason == 'stop':
            skill_set = self._skill_sets.get(event.generation_id)
            if skill_set is not None:
                known_s = self._shortest_s.get(skill_set, event.generation_s)
                self._shortest_s[skill_set] = min(known_s, event.generation_s)

    def estimate_s(self, task: Task) -> float | None:
        """Return the bound (s); None before the first plan of the task's skill set."""
        return self._shortest_s.get(task.skill_set)
