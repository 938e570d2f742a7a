"""One robot's tasks: the one that it serves, those that wait, and those that are being stopped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.planner.task_run import TaskRun


class RobotQueue:
    """The order in which one robot serves its tasks; it starts and ends none of them.

    Behind the current one comes whichever of those that wait ``rank`` puts highest, the first of
    equals.

    The plan of a task that takes over is generated at once, but the robot gets nothing of it before
    the tasks that it took over from have ended.
    """

    def __init__(self, rank: Callable[[TaskRun], tuple[float, ...]]) -> None:
        self._rank = rank
        self.current: TaskRun | None = None
        self.waiting: list[TaskRun] = []
        self._leaving: set[TaskRun] = set()
        self._free = asyncio.Event()
        self._free.set()

    @property
    def empty(self) -> bool:
        """Whether the robot has no task at all."""
        return self.current is None and not self.waiting and not self._leaving

    async def wait_free(self) -> None:
        """Return once every task that was taken over from has ended."""
        await self._free.wait()

    def take_over(self, run: TaskRun) -> TaskRun | None:
        """Make ``run`` the current task; return the one it took over from."""
        old = self.current
        if old is not None:
            self._leaving.add(old)
            self._free.clear()
        self.current = run
        return old

    def leave(self, run: TaskRun) -> None:
        """Forget a task that ended; behind the current one the best that waits becomes current."""
        if run in self._leaving:
            self._leaving.discard(run)
            if not self._leaving:
                self._free.set()
        elif run is self.current:
            self.current = max(self.waiting, key=self._rank, default=None)
            if self.current is not None:
                self.waiting.remove(self.current)
        else:
            self.waiting.remove(run)
