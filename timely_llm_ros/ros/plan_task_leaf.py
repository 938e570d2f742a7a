"""A leaf of a py_trees behaviour tree that has a planner plan and carry out one task.

Import it from this module: it needs ``py_trees`` (extra ``py_trees``), which the face does without.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from action_msgs.msg import GoalStatus
from py_trees.behaviour import Behaviour
from py_trees.common import Status

from timely_llm_ros.errors import TimelyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.action import PlanTask
    from timely_llm_ros.ros.task_client import SentTask, TaskClient


class PlanTaskLeaf(Behaviour):
    """RUNNING while a task is planned and done, SUCCESS or FAILURE by its result.

    ``feedback_message`` has the call in hand, and the reason of a failure. A tree that turns to
    something else cancels the task, and its robot takes its safe action. Tick it on the thread that
    spins the client's node.

    Args:
        name: The leaf's name in the tree.
        client: Sends the tasks. Its ``meet_limit_s`` is how long an absent planner may keep the
            leaf RUNNING (s); a planner that dies fails it after ``silence_limit_s``.
        goal: What to ask for. A function is called at each start, for goals that the tree fills in.

    Attributes:
        result: The ``PlanTask`` result of the last task; None where it had none.
        feedback: The last feedback of that task, or None.
    """

    def __init__(
        self,
        name: str,
        client: TaskClient,
        goal: PlanTask.Goal | Callable[[], PlanTask.Goal],
    ) -> None:
        super().__init__(name)
        self._client, self._goal = client, goal
        self._sent: SentTask | None = None
        self._runs = 0
        self.result: PlanTask.Result | None = None
        self.feedback: PlanTask.Feedback | None = None

    def initialise(self) -> None:
        """Send the task."""
        self.result = self.feedback = None
        self.feedback_message = 'waits for the planner'
        goal = self._goal() if callable(self._goal) else self._goal
        self._runs += 1
        self._sent = self._client.send(goal, partial(self._on_feedback, self._runs))

    def update(self) -> Status:
        """Return how the task stands."""
        if self._sent is None or not self._sent.result.done():
            return Status.RUNNING
        sent, self._sent = self._sent, None
        error = sent.result.exception()
        if error is not None:
            if not isinstance(error, TimelyError):
                raise error
            self.feedback_message = str(error)
            return Status.FAILURE
        answer: Any = sent.result.result()
        self.result = answer.result
        if answer.status == GoalStatus.STATUS_SUCCEEDED:
            self.feedback_message = f'done in {answer.result.segments} segments'
            return Status.SUCCESS
        self.feedback_message = f'{answer.result.error_msg} (code {answer.result.error_code})'
        return Status.FAILURE

    def terminate(self, new_status: Status) -> None:
        """Cancel the task if the tree turns to something else."""
        if new_status == Status.INVALID and self._sent is not None:
            self._sent.cancel()
            self._sent = None

    def _on_feedback(self, run: int, feedback: PlanTask.Feedback) -> None:
        if run != self._runs:
            return
        self.feedback = feedback
        if self._sent is not None:
            self.feedback_message = feedback.call or 'is planned'
