"""What the planner node publishes: task events, segments, the scheduler's state."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticArray
from unique_identifier_msgs.msg import UUID

from timely_llm_ros.engines import EngineFailed, EngineReady, EngineState, EngineStateChanged
from timely_llm_ros.msg import SchedulerState, TaskEvent
from timely_llm_ros.nodes.planner.response_times import ResponseTimes
from timely_llm_ros.planner import (
    SegmentEnded,
    SegmentReady,
    SegmentStarted,
    TaskAccepted,
    TaskEnded,
)
from timely_llm_ros.ros import (
    DEPTH_OVERRIDES,
    EPOCH,
    EVENTS_QOS,
    STATE_QOS,
    TASK_EVENTS_TOPIC,
    overridable,
)
from timely_llm_ros.ros.conversions import (
    GOAL_STATUS,
    duration,
    expectation_fields,
    prediction_fields,
    result_fields,
    scene_messages,
    scheduler_state_message,
    utility_message,
    uuid_message,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rclpy.node import Node

    from timely_llm_ros.engines import EngineEvent, EngineInfo
    from timely_llm_ros.errors import TimelyError
    from timely_llm_ros.planner import PlannerEvent, Task


class PlannerTopics:
    """Publishes the planner's and the engine's events. Used on the loop's thread."""

    def __init__(self, node: Node) -> None:
        self._clock = node.get_clock()
        self._events = node.create_publisher(
            TaskEvent, TASK_EVENTS_TOPIC, **overridable(EVENTS_QOS, DEPTH_OVERRIDES)
        )
        self._states = node.create_publisher(
            SchedulerState, 'scheduler_state', **overridable(STATE_QOS)
        )
        self.diagnostics = node.create_publisher(DiagnosticArray, 'diagnostics', **overridable(10))
        """Where the planner's health goes."""
        self._tasks: dict[str, tuple[Task, float]] = {}
        self._segments: dict[tuple[str, int], SegmentReady] = {}
        self._mode = self._policy = ''
        self.info: EngineInfo | None = None
        self.state: EngineState | None = None
        self.engine_error = ''
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[int] = Counter()
        """Goals that were not taken, by error code."""
        self.endings: Counter[int] = Counter()
        """Tasks that ended, by error code; 0 is success."""
        self.fallbacks: dict[str, str] = {}
        """The robots that do a fallback plan now, by task."""
        self.responses = ResponseTimes()
        self.utility = self.possible_utility = 0.0
        """What ended tasks earned, and the most that they could have."""

    def engine_started(self, info: EngineInfo, *, mode: str, policy: str) -> None:
        """Note what engine runs now and publish that it is idle."""
        self.info, self._mode, self._policy, self.engine_error = info, mode, policy, ''
        self._publish_state(EngineState(0, 0, 0, 0, 0, info.kv_capacity_tokens, 0.0, ()))

    def policy_changed(self, policy: str) -> None:
        """Publish that generations are ranked by another policy."""
        if policy != self._policy:
            self._policy = policy
            if self.state is not None:
                self._publish_state(self.state)

    def engine_stopped(self) -> None:
        """Note that there is no engine."""
        self.info = self.state = None

    def on_engine_event(self, event: EngineEvent) -> None:
        """Publish a change of the engine's state."""
        match event:
            case EngineStateChanged():
                self._publish_state(event.state)
            case EngineFailed():
                self.engine_error = event.error
            case EngineReady():
                self.info, self.engine_error = event.info, ''

    def _publish_state(self, state: EngineState) -> None:
        self.state = state
        if self.info is None:
            return
        robot_of = {task_id: task.robot for task_id, (task, _) in self._tasks.items()}
        message = scheduler_state_message(
            state, self.info, mode=self._mode, policy=self._policy, robot_of=robot_of
        )
        message.header.stamp, message.header.frame_id = self._now(), EPOCH
        self._states.publish(message)

    def on_planner_event(self, event: PlannerEvent) -> None:
        """Publish what happened to a task."""
        if isinstance(event, TaskAccepted):
            self._tasks[event.task_id] = (event.task, event.received_s)
        known = self._tasks.get(event.task_id)
        if known is None:
            return
        task, received_s = known
        message = self._message(event.task_id, task)
        message.at = duration(event.at_s - received_s)
        match event:
            case TaskAccepted():
                self.counts['accepted'] += 1
                self.counts['replans'] += bool(task.goal_id)
                message.event = TaskEvent.ACCEPTED
                message.scene = scene_messages(task.scene)
                message.history = [said.content for said in task.history]
                message.why_robot = task.why_robot
                if event.expected is not None:
                    _fill(message, expectation_fields(event.expected))
                if event.budgeted is not None:
                    budget = event.budgeted.budget
                    message.eviction_ratio = budget.evicted
                    _fill(message, prediction_fields(budget))
            case SegmentReady():
                if event.fallback and event.task_id not in self.fallbacks:
                    self.fallbacks[event.task_id] = task.robot
                    self.counts['fallbacks'] += 1
                self._segments[event.task_id, event.segment.index] = event
                return
            case SegmentStarted():
                message.event = TaskEvent.SEGMENT_STARTED
                message.segment = event.index
                ready = self._segments.get((event.task_id, event.index))
                if ready is not None:
                    message.text, message.error_msg = ready.segment.text, ready.fallback
                    message.expected_execution = duration(ready.expected_execution_s)
            case SegmentEnded():
                message.event = TaskEvent.SEGMENT_ENDED
                message.segment = event.outcome.index
                ready = self._segments.pop((event.task_id, event.outcome.index), None)
                if ready is not None:
                    message.text = ready.segment.text
                message.error_code = event.outcome.ending.code
                message.error_msg = event.outcome.ending.message
                message.execution_time = duration(event.outcome.execution_s)
                message.calls = list(event.outcome.calls)
                message.call_durations = list(map(duration, event.outcome.call_durations_s))
            case TaskEnded():
                self._end(message, event)
            case _:
                return
        self._events.publish(message)

    def refused(
        self,
        error: TimelyError,
        robot: str,
        instruction: str,
        task_kind: str,
        plan_id: UUID | None = None,
    ) -> None:
        """Publish that a goal was not taken."""
        self.counts['refused'] += 1
        self.refusals[error.code] += 1
        message = TaskEvent(
            event=TaskEvent.REFUSED,
            robot=robot,
            instruction=instruction,
            task_kind=task_kind,
            error_code=error.code,
            error_msg=str(error),
            plan_id=plan_id or UUID(),
        )
        message.header.stamp, message.header.frame_id = self._now(), EPOCH
        self._events.publish(message)

    def _end(self, message: TaskEvent, event: TaskEnded) -> None:
        result = event.result
        self.counts[result.status.value] += 1
        task, _ = self._tasks.pop(event.task_id)
        self.fallbacks.pop(event.task_id, None)
        for key in [key for key in self._segments if key[0] == event.task_id]:
            del self._segments[key]
        self.endings[result.ending.code] += 1
        self.utility += result.utility
        self.possible_utility += task.utility.peak
        if result.response_s is not None:
            self.counts['late'] += not self.responses.add(task, result.response_s)
        message.event = TaskEvent.ENDED
        message.status = GOAL_STATUS[result.status]
        message.achieved_utility = result.utility
        _fill(message, result_fields(result))

    def _message(self, task_id: str, task: Task) -> TaskEvent:
        message = TaskEvent(
            plan_id=uuid_message(task_id),
            goal_id=uuid_message(task.goal_id or task_id),
            robot=task.robot,
            skill_set=task.skill_set,
            task_kind=task.task_kind,
            instruction=task.instruction,
            utility=utility_message(task.utility),
            time_budget=duration(task.time_budget_s),
        )
        message.header.stamp, message.header.frame_id = self._now(), EPOCH
        return message

    def _now(self) -> Any:
        return self._clock.now().to_msg()


def _fill(message: TaskEvent, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        setattr(message, name, value)
