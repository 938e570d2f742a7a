"""Serves the planner's action: goals become tasks, and the ends of tasks become results."""

from __future__ import annotations

import logging
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from rclpy.action import GoalResponse

from timely_llm_ros.action import PlanTask
from timely_llm_ros.errors import ShutdownError, TimelyError
from timely_llm_ros.nodes.planner.ros_robot_link import CHECK_PERIOD_S
from timely_llm_ros.planner import TaskEnded, TaskStatus
from timely_llm_ros.ros import DeferredActionServer, FeedbackThrottle
from timely_llm_ros.ros.conversions import (
    task_feedback_message,
    task_record,
    task_result_message,
    uuid_message,
    uuid_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rclpy.action.server import ServerGoalHandle
    from rclpy.node import Node

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.nodes.planner.audit import PlannerAudit
    from timely_llm_ros.nodes.planner.catalogue import Catalogue
    from timely_llm_ros.nodes.planner.robot_scenes import RobotScenes
    from timely_llm_ros.nodes.planner.ros_robot_link import RosRobotLink
    from timely_llm_ros.nodes.planner.spans import PlannerSpans
    from timely_llm_ros.nodes.planner.topics import PlannerTopics
    from timely_llm_ros.planner import Planner, PlannerEvent, Task, TaskHandle, TaskResult, Tries
    from timely_llm_ros.ros import RosThread, SolePublisher
    from timely_llm_ros.utility import TimeUtility

_logger = logging.getLogger(__name__)


@contextmanager
def _faults_as_errors(task: Task) -> Iterator[None]:
    """Have faults of the planner end a goal as its refusals do."""
    try:
        yield
    except TimelyError:
        raise
    except Exception as err:
        _logger.exception('task %s', task.task_id)
        raise TimelyError(f'fault in the planner: {err!r}') from err


@dataclass(slots=True)
class _Goal:
    """One accepted goal. Loop's thread only."""

    goal: ServerGoalHandle
    tries: Tries
    feedback: FeedbackThrottle
    handle: TaskHandle | None = None


class TaskServer:
    """Serves ``plan_task`` for whichever planner it is given.

    Args:
        node: The node.
        ros: Its thread.
        catalogue: The robots and their skill sets.
        topics: Told of goals that are not taken.
        result_timeout_s: How long a result is kept (s).
        clock: The planner's.
        default_utility: Of tasks that come without one.
        heartbeat: What the planner publishes, by which clients know it.
        audit: Told of everything that is asked.
        spans: Told of goals that are not taken.
        scenes: What robots know, for tasks that come without a scene.
        links: The robots.
    """

    def __init__(
        self,
        node: Node,
        ros: RosThread,
        catalogue: Catalogue,
        topics: PlannerTopics,
        *,
        result_timeout_s: int,
        clock: Clock,
        default_utility: TimeUtility,
        heartbeat: SolePublisher,
        audit: PlannerAudit,
        spans: PlannerSpans,
        scenes: RobotScenes,
        links: Mapping[str, RosRobotLink],
    ) -> None:
        self.planner: Planner | None = None
        """The planner that gets the tasks; None while goals are rejected."""
        self.default_utility = default_utility
        self._ros, self._catalogue, self._topics = ros, catalogue, topics
        self._heartbeat, self._audit, self._scenes = heartbeat, audit, scenes
        self._spans, self._links = spans, links
        self._goals: dict[str, _Goal] = {}
        """By id of the task that serves them now."""
        self._taken: tuple[Task, float]
        """The task of the goal that rclpy is about to accept, and when it came; ROS thread only."""
        self._node, self._result_timeout_s, self._clock = node, result_timeout_s, clock
        self._server: DeferredActionServer

    def open(self) -> None:
        """Begin to serve, before the node does."""
        self._server = DeferredActionServer(
            self._node,
            PlanTask,
            'plan_task',
            on_goal=self._on_goal,
            on_accepted=self._on_accepted,
            on_cancel=self._on_cancel,
            result_timeout_s=self._result_timeout_s,
            is_addressed=self._is_addressed,
        )

    def __len__(self) -> int:
        return len(self._goals)

    def _require_planner(self) -> Planner:
        if self.planner is None:
            raise ShutdownError('the planner is not active')
        return self.planner

    # On the ROS thread

    def _is_addressed(self, goal: PlanTask.Goal) -> bool:
        # Until the second planner of a name has left, clients mean the one that they listen to.
        return not goal.planner or bytes(goal.planner) == self._heartbeat.gid

    def _on_goal(self, goal: PlanTask.Goal) -> GoalResponse:
        """Reject a goal that can never be served, and every goal while the planner is not active.

        The reason of a rejection goes to ``task_events``. Whether a task can be served now, the
        planner says on its own thread: a goal that it refuses is aborted with the reason.
        """
        try:
            self._require_planner()
            received_s = self._clock.now()
            task = task_record(
                goal,
                'not accepted yet',
                skill_set_of=self._catalogue.skill_set_of,
                default_utility=self.default_utility,
                skill_sets=self._catalogue.skill_sets,
            )
        except TimelyError as err:
            _logger.warning('goal rejected: %s', err)
            told = goal.robot[:64], goal.instruction[:400], goal.task_kind[:64]
            self._ros.call_loop(self._topics.refused, err, *told)
            client, skill_set = goal.client[:64], goal.skill_set[:64]
            self._ros.call_loop(self._audit.refused, err, *told[:2], '', client)
            note = partial(self._spans.refused, client=client, skill_set=skill_set)
            self._ros.call_loop(note, err, told[0])
            return GoalResponse.REJECT
        self._taken = task, received_s
        return GoalResponse.ACCEPT

    def _on_accepted(self, goal: ServerGoalHandle) -> None:
        # rclpy accepts a goal right after it asked about it, with no other in between.
        task, received_s = self._taken
        task = replace(task, task_id=uuid_text(goal.goal_id))
        self._ros.call_loop(self._submit, goal, task, received_s)

    def _on_cancel(self, goal: ServerGoalHandle) -> None:
        self._ros.call_loop(self._cancel, uuid_text(goal.goal_id))

    def _finish(self, goal: ServerGoalHandle, result: PlanTask.Result, succeeded: bool) -> None:
        self._server.finish(goal, result, succeeded=succeeded)

    # On the loop's thread

    def on_planner_event(self, event: PlannerEvent) -> None:
        """Answer the goal of a task that ended."""
        self._audit.on_planner_event(event)
        if isinstance(event, TaskEnded):
            self._end(event.task_id, event.result)

    def _submit(self, goal: ServerGoalHandle, task: Task, received_s: float) -> None:
        if not goal.is_cancel_requested and self.planner is not None and self._awaits_robot(task):
            self._ros.loop.call_later(CHECK_PERIOD_S, self._submit, goal, task, received_s)
            return
        self._audit.asked(task)
        try:
            with _faults_as_errors(task):
                self._audit.require()
                planner = self._require_planner()
                task = planner.choose(task, partial(self._scenes.distance_m, task))
                feedback = FeedbackThrottle(self._ros.loop, lambda: self._feed_back(entry))
                entry = _Goal(goal, planner.tries(task, received_s), feedback)
                self._begin(planner, entry, task, received_s)
        except TimelyError as err:
            self._refuse(goal, task, err, received_s)
        if goal.is_cancel_requested:
            self._cancel(task.task_id)

    def _awaits_robot(self, task: Task) -> bool:
        """Return whether it has come before any robot that can take it has been met."""
        names = [task.robot, *(robot for robot, _ in task.alternatives)]
        links = [self._links[name] for name in names]
        return not any(link.available for link in links) and any(link.unmet for link in links)

    def _begin(self, planner: Planner, entry: _Goal, task: Task, received_s: float) -> None:
        self._goals[task.task_id] = entry
        prepared = planner.prepare(self._scenes.complete(task))
        entry.handle = planner.submit(
            prepared, received_s=received_s, on_feedback=lambda _: entry.feedback.ask()
        )

    def _begins_again(self, entry: _Goal, result: TaskResult) -> bool:
        """Have a goal planned again from what its robot knows now, if it is to be."""
        now_s = self._clock.now()
        task = entry.tries.next(result, now_s, str(uuid.uuid4()))
        if task is None or self.planner is None:
            return False
        _logger.info('planned again as task %s: %s', task.task_id, result.ending.message)
        self._audit.asked(task)
        try:
            with _faults_as_errors(task):
                self._audit.require()
                self._begin(self.planner, entry, task, now_s)
        except TimelyError as err:
            self._goals.pop(task.task_id, None)
            entry.tries.refused(err)
            return False
        return True

    def _refuse(
        self, goal: ServerGoalHandle, task: Task, error: TimelyError, received_s: float
    ) -> None:
        self._goals.pop(task.task_id, None)
        _logger.warning('task %s refused: %s', task.task_id, error)
        self._topics.refused(
            error, task.robot, task.instruction, task.task_kind, uuid_message(task.task_id)
        )
        self._audit.refused(error, task.robot, task.instruction, task.task_id, task.client)
        self._spans.refused(
            error,
            task.robot,
            task.task_id,
            client=task.client,
            skill_set=task.skill_set,
            after_s=self._clock.now() - received_s,
        )
        result = PlanTask.Result(error_code=error.code, error_msg=str(error))
        self._ros.call(self._finish, goal, result, False)

    def _cancel(self, goal_id: str) -> None:
        for entry in self._goals.values():
            if entry.handle is not None and uuid_text(entry.goal.goal_id) == goal_id:
                self._audit.cancel_asked(entry.handle.task.task_id)
                entry.handle.cancel()
                return

    def _feed_back(self, entry: _Goal) -> None:
        if entry.handle is not None:
            message = task_feedback_message(entry.handle.feedback)
            task = entry.handle.task
            message.robot, message.why_robot = task.robot, task.why_robot
            entry.goal.publish_feedback(message)

    def _end(self, task_id: str, result: TaskResult) -> None:
        entry = self._goals.pop(task_id, None)
        if entry is None or self._begins_again(entry, result):
            return
        result = entry.tries.result
        entry.feedback.close()
        if not result.ending.succeeded:
            _logger.info('task %s ended: %s', task_id, result.ending.message)
        message = task_result_message(result)
        self._ros.call(self._finish, entry.goal, message, result.status is TaskStatus.SUCCEEDED)
