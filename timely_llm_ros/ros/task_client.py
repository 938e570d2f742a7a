"""Sends tasks to a planner from any ROS 2 program and says so when the planner dies.

A plain action client waits for ever for the result of a task whose planner was killed: discovery
forgets a dead process late, and tells nobody of its goals. This one hears the planner's heartbeat.
"""

from __future__ import annotations

import math
import time
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from action_msgs.msg import GoalStatus
from rclpy.task import Future
from std_msgs.msg import Header
from unique_identifier_msgs.msg import UUID

from timely_llm_ros.action import PlanTask
from timely_llm_ros.errors import (
    InvalidTaskError,
    PlannerLostError,
    ShutdownError,
    TaskCanceledError,
    TaskRefusedError,
)
from timely_llm_ros.msg import TaskEvent
from timely_llm_ros.ros.action_client import GoalClient
from timely_llm_ros.ros.sole_publisher import IdentifiedSubscription
from timely_llm_ros.ros.steady_timer import create_steady_timer
from timely_llm_ros.ros.topics import (
    EVENTS_QOS,
    HEARTBEAT_QOS,
    HEARTBEAT_TOPIC,
    TASK_EVENTS_TOPIC,
)
from timely_llm_ros.silence import Silence

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.node import Node

    from timely_llm_ros.errors import TimelyError

SILENCE_S = 3.0
"""How long a planner that was heard may be silent until it counts as dead (s)."""

NEWCOMER_S = 0.5
"""Silence of a planner (s) after which another may take its place."""

CHECK_PERIOD_S = 0.05
"""How often the planner is looked for (s)."""

REASON_LIMIT_S = 3.0
"""How long the reason of a rejection, which comes on a topic, is waited for (s)."""


@dataclass(frozen=True, slots=True)
class SentTask:
    """A task that was sent.

    Both futures raise ``PlannerLostError`` if the planner dies, is not met or does not answer, and
    what refuses the task: ``InvalidTaskError``, ``TaskRefusedError`` or ``ShutdownError``.

    Attributes:
        accepted: A future of the plan's id (hexadecimal), as topics name it.
        result: A future of a ``PlanTask`` result with its ``status``.
        cancel: Asks for its end, at the latest when it is accepted; no-op if it has ended.
    """

    accepted: Future[str]
    result: Future[Any]
    cancel: Callable[[], None]


class _Task:
    """What the client knows of a task that was sent."""

    def __init__(
        self, goal: PlanTask.Goal, on_feedback: Callable[[PlanTask.Feedback], None] | None
    ) -> None:
        self._on_feedback = on_feedback
        # Cut as the planner does where it says why it refuses.
        self.key = (goal.robot[:64], goal.instruction[:400])
        self.accepted: Future[str] = Future()
        self.result: Future[Any] = Future()
        self.plan_id = UUID(uuid=list(uuid.uuid4().bytes))
        self.since_s = time.monotonic()
        """When it began to wait for what it waits for."""
        self.handle: Any = None
        self.unknown_since_s = math.inf
        """When it was first said that nobody knows it."""
        self._canceling = False

    def cancel(self) -> None:
        self._canceling = True
        if self.handle is not None and not self.result.done():
            self.handle.cancel_goal_async()

    def accept(self, handle: Any) -> None:
        if self.result.done():
            # It was given up by then: nobody waits for it.
            handle.cancel_goal_async()
            return
        self.handle = handle
        self.accepted.set_result(bytes(self.plan_id.uuid).hex())
        if self._canceling:
            handle.cancel_goal_async()

    def feed_back(self, message: Any) -> None:
        if self._on_feedback is not None and not self.result.done():
            self._on_feedback(message.feedback)

    def fail(self, error: TimelyError) -> None:
        for future in (self.accepted, self.result):
            if not future.done():
                future.set_exception(error)
        # Looked at: who waits for the result alone hears of it there.
        self.accepted.exception()


class TaskClient:
    """Sends tasks to the planner of a node's namespace.

    Whoever makes one spins its node; everything happens on the thread that does. A planner that
    is silent for ``silence_limit_s`` is dead to it, and its robots have made themselves safe by
    then; so is one whose place another planner took.

    Args:
        node: Whose namespace the planner has.
        meet_limit_s: How long a task waits for a planner, and for its answer (s).
        silence_limit_s: How long the planner may be silent (s).
    """

    def __init__(
        self, node: Node, *, meet_limit_s: float = 10.0, silence_limit_s: float = SILENCE_S
    ) -> None:
        self._meet_limit_s, self._silence_limit_s = meet_limit_s, silence_limit_s
        self._client = GoalClient(node, PlanTask, 'plan_task')
        self._waiting: dict[_Task, PlanTask.Goal] = {}
        """Those for which no planner has been met, with what they ask."""
        self._open: set[_Task] = set()
        """Those that a planner has."""
        self._rejected: list[_Task] = []
        """Those whose reason has not come."""
        self._unknown: list[_Task] = []
        """Those whose result is to be asked for again."""
        self._reasons: dict[tuple[str, str], TimelyError] = {}
        self._planner = self._met = b''
        self._silence = Silence(most_s=4 * CHECK_PERIOD_S)
        # The heartbeat last: a planner that is heard then knows everything else that listens here.
        node.create_subscription(TaskEvent, TASK_EVENTS_TOPIC, self._on_event, EVENTS_QOS)
        self._heartbeats = IdentifiedSubscription(node, Header, HEARTBEAT_TOPIC, HEARTBEAT_QOS)
        create_steady_timer(node, CHECK_PERIOD_S, self._check)

    @property
    def found(self) -> bool:
        """Whether there is a planner; while it loads its model, it is silent."""
        there: bool = self._client.server_is_ready()
        return there

    @property
    def ready(self) -> bool:
        """Whether a planner takes tasks: its heart beats, and its action was found."""
        # Discovery loses the action for a moment whenever another server of that name leaves.
        if self._met != self._planner and self.found:
            self._met = self._planner
        return bool(self._planner) and self._met == self._planner

    @property
    def open_tasks(self) -> int:
        """How many tasks have no end yet."""
        return len(self._waiting) + len(self._open) + len(self._rejected)

    def send(
        self,
        goal: PlanTask.Goal,
        on_feedback: Callable[[PlanTask.Feedback], None] | None = None,
    ) -> SentTask:
        """Send a task as soon as there is a planner; never raises."""
        task = _Task(goal, on_feedback)
        self._waiting[task] = goal
        self._send_waiting()
        return SentTask(task.accepted, task.result, partial(self._cancel, task))

    def _cancel(self, task: _Task) -> None:
        if self._waiting.pop(task, None) is not None:
            task.fail(TaskCanceledError('canceled before a planner was met'))
        else:
            task.cancel()

    def _check(self) -> None:
        for _, planner in self._heartbeats.take():
            self._on_heartbeat(planner)
        if self._planner and self._silence.look() > self._silence_limit_s:
            self._lose(f'no sign of life for {self._silence_limit_s:g} s')
        self._send_waiting()
        self._end_waiting()
        self._tell_rejections()
        unknown, self._unknown = self._unknown, []
        for task in unknown:
            self._ask_result(task)
        keys = {task.key for task in (*self._open, *self._rejected)}
        self._reasons = {key: why for key, why in self._reasons.items() if key in keys}

    def _end_waiting(self) -> None:
        """Give up what has waited too long for a planner or for its answer."""
        before_s = time.monotonic() - self._meet_limit_s
        for task in [task for task in self._waiting if task.since_s < before_s]:
            del self._waiting[task]
            silent = 'there, but silent, as while it loads its model' if self.found else 'not met'
            task.fail(_lost(f'{silent}, for {self._meet_limit_s:g} s'))
        for task in [task for task in self._open if task.since_s < before_s]:
            if not task.accepted.done():
                self._open.remove(task)
                task.fail(_lost(f'no answer to a task for {self._meet_limit_s:g} s'))

    def _on_heartbeat(self, planner: bytes) -> None:
        if planner != self._planner:
            if self._planner and self._silence.look() < NEWCOMER_S:
                self._heartbeats.report(planner, f'the planner {self._planner.hex()}')
                return
            if self._planner:
                self._lose('it was started anew')
            self._planner = planner
        self._silence.heard()

    def _lose(self, problem: str) -> None:
        self._planner = b''
        lost = tuple(self._open)
        self._open.clear()
        for task in lost:
            # One that is accepted after all is still to be canceled.
            if task.accepted.done():
                self._client.forget(task.plan_id)
            task.fail(_lost(problem))

    def _send_waiting(self) -> None:
        if not self._waiting or not self.ready:
            return
        for task, goal in self._waiting.items():
            task.since_s = time.monotonic()
            self._open.add(task)
            goal.planner = self._planner
            answer = self._client.send_goal_async(
                goal, feedback_callback=task.feed_back, goal_uuid=task.plan_id
            )
            answer.add_done_callback(partial(self._on_answer, task))
        self._waiting.clear()

    def _on_answer(self, task: _Task, answer: Any) -> None:
        handle = answer.result()
        if handle is not None and handle.accepted:
            task.accept(handle)
            self._ask_result(task)
        elif task in self._open:
            self._open.remove(task)
            task.since_s = time.monotonic()
            self._rejected.append(task)
            self._tell_rejections()

    def _ask_result(self, task: _Task) -> None:
        if task.handle is not None:
            task.handle.get_result_async().add_done_callback(partial(self._on_result, task))

    def _on_result(self, task: _Task, answer: Any) -> None:
        end, now_s = answer.result(), time.monotonic()
        if end.status == GoalStatus.STATUS_UNKNOWN and task in self._open:
            # Another planner of that name may have answered, which leaves in a moment.
            task.unknown_since_s = min(task.unknown_since_s, now_s)
            if now_s < task.unknown_since_s + self._meet_limit_s:
                self._unknown.append(task)
                return
        self._open.discard(task)
        if not task.result.done():
            task.result.set_result(end)

    def _on_event(self, event: TaskEvent) -> None:
        if event.event == TaskEvent.REFUSED:
            kinds = {InvalidTaskError.code: InvalidTaskError, ShutdownError.code: ShutdownError}
            kind = kinds.get(event.error_code, TaskRefusedError)
            self._reasons[event.robot, event.instruction] = kind(event.error_msg)
            self._tell_rejections()

    def _tell_rejections(self) -> None:
        """Tell those whose reason has come, or has been waited for long enough."""
        for task in tuple(self._rejected):
            reason = self._reasons.pop(task.key, None)
            if reason is None and time.monotonic() < task.since_s + REASON_LIMIT_S:
                continue
            self._rejected.remove(task)
            task.fail(reason or TaskRefusedError('refused by the planner'))


def _lost(problem: str) -> PlannerLostError:
    return PlannerLostError(
        f'planner: {problem}: expected its heartbeat on {HEARTBEAT_TOPIC!r}; send the task again'
    )
