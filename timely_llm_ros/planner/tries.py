"""The plans of one goal: another may follow where a skill failed on its robot."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ExecutionError
from timely_llm_ros.skills import Scene

if TYPE_CHECKING:
    from timely_llm_ros.errors import TimelyError
    from timely_llm_ros.planner.task import Task, TaskResult


@dataclass(slots=True)
class Tries:
    """What one goal's plans came to, and whether there is to be another.

    Each plan is a task of its own, with an id, a scene and segments of its own, so no robot takes
    what was written for the scene before.

    Attributes:
        task: The first of these tasks.
        came_s: When the goal came, from which its response and its time budget count (s).
        most: Most further plans.
    """

    task: Task
    came_s: float
    most: int
    _received_s: float = field(init=False)
    _ended: list[tuple[float, TaskResult]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._received_s = self.came_s

    def next(self, result: TaskResult, now_s: float, task_id: str) -> Task | None:
        """Note how a plan ended; return the task of the next one, None where that was the last.

        There is another where its robot could not do a skill, while the goal has plans and time
        budget left; a robot that somebody stopped is left alone. The task queues for its robot and
        has no scene yet. Its robot has waited for it since now.
        """
        self._ended.append((self._received_s, result))
        self._received_s = now_s
        budget_s = self.task.time_budget_s
        left_s = None if budget_s is None else budget_s - (now_s - self.came_s)
        if (
            not (result.skill_failed and result.ending.code == ExecutionError.code)
            or len(self._ended) > self.most
            or (left_s is not None and left_s <= 0)
        ):
            return None
        return replace(
            self.task,
            task_id=task_id,
            goal_id=self.task.task_id,
            scene=Scene(()),
            time_budget_s=left_s,
            when_busy='queue',
            alternatives=(),
        )

    def refused(self, error: TimelyError) -> None:
        """Note that the next plan was not to be had, which leaves the failure before it."""
        received_s, last = self._ended[-1]
        told = f'{last.ending.message}; not planned again: {error}'
        ending = replace(last.ending, message=told)
        self._ended[-1] = received_s, replace(last, ending=ending)

    @property
    def result(self) -> TaskResult:
        """All of its plans as one: the first response, the last ending, the sum of the rest."""
        results = [result for _, result in self._ended]
        received_s, last = self._ended[-1]
        response_s = next(
            (
                since_s - self.came_s + result.response_s
                for since_s, result in self._ended
                if result.response_s is not None
            ),
            None,
        )
        return replace(
            last,
            response_s=response_s,
            waiting_s=sum(result.waiting_s for result in results),
            execution_s=sum(result.execution_s for result in results),
            completion_s=sum(result.completion_s for result in results),
            utility=0.0 if response_s is None else self.task.utility.first(response_s),
            tokens=sum(result.tokens for result in results),
            segments=sum(result.segments for result in results),
            waits_s=tuple(wait_s for result in results for wait_s in result.waits_s),
            generation_s=received_s - self.came_s + last.generation_s,
            replans=len(results) - 1,
        )
