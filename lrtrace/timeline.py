"""Reads a trace into the records of the run that it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lrtrace.run import (
    EngineSample,
    RecordedSegment,
    RecordedTask,
    Run,
    natural_key,
    note_busy_robots,
)
from lrtrace.storage import finite, nanoseconds, scene, seconds

if TYPE_CHECKING:
    from lrtrace.storage import Trace, TraceMessage

TASK_EVENT = 'timely_llm_ros/msg/TaskEvent'
SKILL_SEGMENT = 'timely_llm_ros/msg/SkillSegment'
SCHEDULER_STATE = 'timely_llm_ros/msg/SchedulerState'

ACCEPTED, REFUSED, SEGMENT_STARTED, SEGMENT_ENDED, ENDED = range(5)
"""``event`` of ``msg/TaskEvent``."""


def read_run(trace: Trace, *, label: str = '') -> Run:
    """Read the records of a run from its trace. The default label is its mode and policy.

    Raises:
        TraceError: The trace cannot be read.
    """
    messages = sorted(
        trace.messages(types=(TASK_EVENT, SKILL_SEGMENT, SCHEDULER_STATE)), key=_sent_ns
    )
    run = Run(label, custom_data=dict(trace.custom_data), path=str(trace.path))
    run.damage = trace.damage
    starts = [
        nanoseconds(message.value.header.stamp) - nanoseconds(message.value.at)
        for message in messages
        if message.message_type == TASK_EVENT and message.value.event == ACCEPTED
    ]
    run.start_ns = min(starts, default=_sent_ns(messages[0]) if messages else 0)
    tasks: dict[str, RecordedTask] = {}
    early: list[TraceMessage] = []
    for message in messages:
        if message.message_type == TASK_EVENT:
            _add_event(run, tasks, message.value)
        elif message.message_type == SKILL_SEGMENT:
            # It has another topic than the events, so it may come before its task.
            early.append(message)
        else:
            _add_sample(run, message.value)
    for message in early:
        _add_segment(run, tasks, message.value)
    run.tasks = sorted(tasks.values(), key=lambda task: (task.received_s, natural_key(task.robot)))
    note_busy_robots(run.tasks)
    ends_s = [task.ended_s for task in run.tasks if task.ended_s is not None]
    ends_s += [
        time_s
        for task in run.tasks
        for segment in task.segments.values()
        for time_s in (segment.generated_s, segment.started_s, segment.ended_s)
        if time_s is not None
    ]
    run.duration_s = max(ends_s, default=0.0)
    run.label = label or ', '.join(filter(None, (run.mode.replace('_', ' '), run.policy))) or 'run'
    return run


def _add_event(run: Run, tasks: dict[str, RecordedTask], event: Any) -> None:
    at_s = (nanoseconds(event.header.stamp) - run.start_ns) / 1e9
    plan_id = bytes(event.plan_id.uuid).hex()
    if event.event == REFUSED:
        run.refused.append((event.robot, event.error_msg))
        return
    if event.event == ACCEPTED:
        tasks[plan_id] = RecordedTask(
            plan_id=plan_id,
            robot=event.robot,
            kind=event.task_kind or 'other',
            instruction=event.instruction,
            received_s=at_s - seconds(event.at),
            free_s=at_s - seconds(event.at),
            expected_response_s=seconds(event.utility.expected_response),
            slope_per_s=finite(event.utility.slope_per_s),
            peak=finite(event.utility.peak),
            skill_set=event.skill_set,
            scene=scene(event.scene),
            time_budget_s=seconds(event.time_budget) or None,
        )
        return
    task = tasks.get(plan_id)
    if task is None:
        # The recorder was started after the task was accepted.
        return
    since_start_s = task.received_s + seconds(event.at)
    if event.event == ENDED:
        task.ended_s = since_start_s
        task.status, task.error_code, task.error = event.status, event.error_code, event.error_msg
        task.response_s = seconds(event.response_time) if _started(task) else None
        task.waiting_s = seconds(event.waiting_time)
        task.execution_s = seconds(event.execution_time)
        task.completion_s = seconds(event.completion_time)
        task.utility, task.tokens = finite(event.achieved_utility), event.tokens
        return
    segment = task.segments.setdefault(event.segment, RecordedSegment(event.segment))
    segment.text = segment.text or event.text
    if event.event == SEGMENT_STARTED:
        segment.started_s = since_start_s
        segment.expected_execution_s = seconds(event.expected_execution)
        if event.segment == 0 and task.response_s is None:
            task.response_s = seconds(event.at)
    elif event.event == SEGMENT_ENDED:
        segment.ended_s, segment.error = since_start_s, event.error_msg
        segment.execution_s = seconds(event.execution_time) or None


def _add_segment(run: Run, tasks: dict[str, RecordedTask], message: Any) -> None:
    task = tasks.get(bytes(message.plan_id.uuid).hex())
    if task is None:
        return
    segment = task.segments.setdefault(message.index, RecordedSegment(message.index))
    segment.text = message.text
    segment.calls = tuple(_call_text(call) for call in message.calls)
    segment.calls_expected_s = tuple(seconds(call.expected_execution) for call in message.calls)
    segment.awaits_value, segment.tokens = message.awaits_value, message.tokens
    segment.generated_s = (nanoseconds(message.header.stamp) - run.start_ns) / 1e9
    segment.generation_s = seconds(message.generation_time)
    segment.expected_execution_s = seconds(message.expected_execution)


def _add_sample(run: Run, state: Any) -> None:
    run.engine, run.model = state.engine, state.model
    run.mode, run.policy = state.mode, state.policy
    run.kv_capacity_tokens = state.kv_capacity_tokens
    sample = EngineSample(
        at_s=(nanoseconds(state.header.stamp) - run.start_ns) / 1e9,
        running=state.running,
        suspended=state.suspended,
        held=state.held,
        queued=state.queued,
        kv_tokens=state.kv_tokens,
        step_s=seconds(state.step_time),
    )
    if sample.at_s >= 0:
        run.samples.append(sample)


def _started(task: RecordedTask) -> bool:
    return any(segment.started_s is not None for segment in task.segments.values())


def _call_text(call: Any) -> str:
    arguments = ','.join(call.argument_texts)
    return f'{call.skill}({arguments})' if arguments else str(call.skill)


def _sent_ns(message: TraceMessage) -> int:
    return nanoseconds(message.value.header.stamp)
