"""One robot's tasks: the one it serves, those behind it, and those that are being stopped."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timely_llm_ros.planner.task_run import TaskRun


class RobotQueue:
    """The order in which one robot serves its tasks. It starts and ends none of them.

    A task that takes over begins to be generated at once, but nothing of it is sent to the robot
    before the tasks that it took over from have ended.
    """

    def __init__(self) -> None:
        self.current: TaskRun | None = None
        self.waiting: deque[TaskRun] = deque()
        self._leaving: set[TaskRun] = set()
        self._free = asyncio.Event()
        self._free.set()

    @property
    def empty(self) -> bool:
        """Whether it has no task at all."""
        return self.current is None and not self.waiting and not self._leaving

    async def wait_free(self) -> None:
        """Return once no task that was taken over from is still being stopped."""
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
        """Forget a task that ended; if it was the current one, the next in the queue is now."""
        if run in self._leaving:
            self._leaving.discard(run)
            if not self._leaving:
                self._free.set()
        elif run is self.current:
            self.current = self.waiting.popleft() if self.waiting else None
        else:
            self.waiting.remove(run)
