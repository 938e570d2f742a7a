"""When a robot acted and when it waited: the times that a task's result reports.

For segment k: ``wait_k = start_k - end_{k-1}``, with the time the task was received as end_{-1};
completion is the sum of waits and execution times (TimelyLLM, section 2.2).
"""

from __future__ import annotations


class Timeline:
    """Starts and ends of one task's segments, which was received at ``received_s``.

    Reports may come out of order: a segment's start and the end before it are two messages with
    unequal delays. So a wait is settled once both its sides are known, and a start that was
    reported before the previous end counts as no wait.
    """

    def __init__(self, received_s: float) -> None:
        self.received_s = received_s
        self._starts_s: dict[int, float] = {}
        self._executions_s: dict[int, float] = {}
        self._waits_s: list[float] = []
        self._settled_starts_s: list[float] = []

    @property
    def waits_s(self) -> tuple[float, ...]:
        """The settled waits (s), in order."""
        return tuple(self._waits_s)

    @property
    def idle_since_s(self) -> float:
        """End of the latest settled segment that ended; at first, when the task was received."""
        for index in range(len(self._waits_s) - 1, -1, -1):
            if index in self._executions_s:
                return self._settled_starts_s[index] + self._executions_s[index]
        return self.received_s

    @property
    def response_s(self) -> float | None:
        """The first wait (s); None before the first start."""
        return self._waits_s[0] if self._waits_s else None

    @property
    def waiting_s(self) -> float:
        """Sum of the waits (s)."""
        return sum(self._waits_s, 0.0)

    @property
    def execution_s(self) -> float:
        """Sum of the execution times (s) of the segments that started and ended."""
        return sum((self._executions_s.get(index, 0.0) for index in range(len(self._waits_s))), 0.0)

    @property
    def completion_s(self) -> float:
        """Waiting plus execution (s)."""
        return self.waiting_s + self.execution_s

    def has_started(self, index: int) -> bool:
        """Return whether that segment's start was reported."""
        return index in self._starts_s

    def start_s(self, index: int) -> float:
        """Return when that segment's action started (s).

        Raises:
            KeyError: Its start was not reported.
        """
        if index < len(self._settled_starts_s):
            return self._settled_starts_s[index]
        return self._starts_s[index]

    def start(self, index: int, at_s: float) -> None:
        """Note that a segment's action started; only its first report counts."""
        if self._starts_s.setdefault(index, at_s) == at_s:
            self._settle()

    def end(self, index: int, execution_s: float) -> None:
        """Note that a segment that started ended after ``execution_s`` (s)."""
        if index in self._starts_s and index not in self._executions_s:
            self._executions_s[index] = max(0.0, execution_s)
            self._settle()

    def _settle(self) -> None:
        while (index := len(self._waits_s)) in self._starts_s:
            if index == 0:
                previous_end_s = self.received_s
            elif index - 1 in self._executions_s:
                previous_end_s = self._settled_starts_s[-1] + self._executions_s[index - 1]
            else:
                return
            start_s = max(self._starts_s[index], previous_end_s)
            self._settled_starts_s.append(start_s)
            self._waits_s.append(start_s - previous_end_s)
