"""What a client holds of a task that the planner accepted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from timely_llm_ros.errors import Ending, TaskCanceledError

if TYPE_CHECKING:
    from timely_llm_ros.planner.task import Task, TaskFeedback, TaskPhase, TaskResult
    from timely_llm_ros.planner.task_run import TaskRun


class TaskHandle:
    """An accepted task."""

    def __init__(self, run: TaskRun) -> None:
        self._run = run

    @property
    def task(self) -> Task:
        """The task."""
        return self._run.task

    @property
    def phase(self) -> TaskPhase:
        """Where it is in its life."""
        return self._run.phase

    @property
    def feedback(self) -> TaskFeedback:
        """How far it is."""
        return self._run.feedback

    async def result(self) -> TaskResult:
        """Return how it ended, once it has; never raises for a task that failed."""
        return await asyncio.shield(self._run.result)

    def cancel(self) -> None:
        """End it as CANCELED; no-op if it is ending already. Its robot is made safe first."""
        self._run.end(Ending.of(TaskCanceledError('cancelled by the client')))
