"""Reads a trace into the records of the run that it holds."""

from __future__ import annotations

import sys
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from lrtrace.run import (
    EngineSample,
    RecordedSegment,
    RecordedTask,
    RefusedTask,
    Run,
    natural_key,
    note_busy_robots,
)
from lrtrace.storage import FOREIGN, finite, nanoseconds, plan_id_of, scene, seconds
from lrtrace.world_moments import read_moments
from lrtrace.world_verdicts import read_verdicts
from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    from lrtrace.storage import Room, Trace

TASK_EVENT = 'timely_llm_ros/msg/TaskEvent'
SKILL_SEGMENT = 'timely_llm_ros/msg/SkillSegment'
SCHEDULER_STATE = 'timely_llm_ros/msg/SchedulerState'

ACCEPTED, REFUSED, SEGMENT_STARTED, SEGMENT_ENDED, ENDED = range(5)
"""``event`` of ``msg/TaskEvent``."""


EVERYTHING = (TASK_EVENT, SKILL_SEGMENT, SCHEDULER_STATE)

NOTED = ('engine', 'model', 'mode', 'policy')
"""What a trace notes of its planner, as its ``SchedulerState`` says it."""

TASK_BYTES, OBJECT_BYTES, SEGMENT_BYTES, CALL_BYTES, SAMPLE_BYTES = 1100, 250, 550, 40, 280
"""What a record takes in memory, roughly, besides its texts."""


def read_run(trace: Trace, *, label: str = '') -> Run:
    """Read the records of a run from its trace. The default label is its mode and policy.

    What finds no place in the trace's room is left out, and ``damage`` says so.

    Raises:
        TraceError: The trace cannot be read, or its messages are not those of a fleet.
    """
    run = Run(label, custom_data=dict(trace.custom_data), path=str(trace.path))
    room = trace.room()
    try:
        # Twice, since nothing can be placed in time before the earliest task is known, and a
        # trace may be too long to be kept in between.
        tasks, planners = _accepted(run, trace, room)
        for message in trace.messages(types=EVERYTHING):
            if message.message_type == TASK_EVENT:
                size = _add_event(run, tasks, message.value)
            elif message.message_type == SKILL_SEGMENT:
                size = _add_segment(run, tasks, message.value)
            elif not planners or _namespace(message.topic) in planners:
                size = _add_sample(run, message.value)
            else:
                continue
            if not room.take(size):
                break
    except FOREIGN as err:
        raise TraceError(f'trace {run.path!r}: messages of another package: {err}') from err
    verdicts = read_verdicts(trace)
    for plan_id, verdict in verdicts.items():
        if plan_id in tasks:
            tasks[plan_id].world_verdict = verdict
    if verdicts:
        run.moments = read_moments(trace, run.start_ns)
    for name in NOTED:
        # The recorder notes whichever planner it heard last, of those that its trace is of.
        setattr(run, name, getattr(run, name) or run.custom_data.get(name, ''))
    run.damage = trace.damage
    if room.left < 0:
        run.damage = '; '.join(filter(None, (run.damage, room.damage)))
    for task in tasks.values():
        if task.ended_s is not None and not _started(task):
            task.response_s = None
    run.samples.sort(key=attrgetter('at_s'))
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


def _accepted(run: Run, trace: Trace, room: Room) -> tuple[dict[str, RecordedTask], frozenset[str]]:
    """Return the accepted tasks by plan id, and their planners' namespaces.

    Sets when the run began.
    """
    tasks: dict[str, RecordedTask] = {}
    planners: set[str] = set()
    stamps: dict[str, tuple[int, int]] = {}
    for message in trace.messages(types=(TASK_EVENT,)):
        event = message.value
        if event.event != ACCEPTED:
            continue
        plan_id = plan_id_of(event)
        task = RecordedTask(
            plan_id=plan_id,
            robot=str(event.robot),
            kind=str(event.task_kind) or 'other',
            instruction=str(event.instruction),
            received_s=0.0,
            free_s=0.0,
            expected_response_s=seconds(event.utility.expected_response),
            slope_per_s=finite(event.utility.slope_per_s),
            peak=finite(event.utility.peak),
            skill_set=str(event.skill_set),
            scene=scene(event.scene),
            time_budget_s=seconds(event.time_budget) or None,
            # Traces of before have none of these.
            history=tuple(map(str, getattr(event, 'history', ()))),
            told_response_s=_known_s(event, 'expected_response'),
            promised_response_s=_known_s(event, 'promised_response'),
        )
        size = TASK_BYTES + _size(task.robot, task.kind, task.instruction, task.skill_set)
        size += _size(*task.history)
        for item in task.scene.objects:
            size += OBJECT_BYTES + _size(item.name, item.kind, item.attribute, item.support)
        if not room.take(size):
            break
        planners.add(_namespace(message.topic))
        stamps[plan_id] = _sent_ns(event), nanoseconds(event.at)
        tasks[plan_id] = task
    starts = (sent_ns - at_ns for sent_ns, at_ns in stamps.values())
    if not stamps:
        starts = (_sent_ns(message.value) for message in trace.messages(types=EVERYTHING))
    run.start_ns = min(starts, default=0)
    for plan_id, (sent_ns, at_ns) in stamps.items():
        task = tasks[plan_id]
        task.received_s = task.free_s = (sent_ns - run.start_ns) / 1e9 - at_ns / 1e9
    return tasks, frozenset(planners)


def _add_event(run: Run, tasks: dict[str, RecordedTask], event: Any) -> int:
    """Take what an event says of a task, and return how much room that takes."""
    if event.event == REFUSED:
        texts = (
            str(event.robot),
            str(event.error_msg),
            str(event.task_kind) or 'other',
            str(event.instruction),
        )
        run.refused.append(RefusedTask(*texts, (_sent_ns(event) - run.start_ns) / 1e9))
        return CALL_BYTES + _size(*texts)
    # Where there is none, the recorder was started after the task was accepted.
    task = tasks.get(plan_id_of(event))
    if task is None or event.event == ACCEPTED:
        return 0
    error = str(event.error_msg)
    size = _size(error)
    since_start_s = task.received_s + seconds(event.at)
    if event.event == ENDED:
        task.ended_s = since_start_s
        task.status, task.error_code = int(event.status), int(event.error_code)
        task.error = error
        task.response_s = seconds(event.response_time)
        task.waiting_s = seconds(event.waiting_time)
        task.execution_s = seconds(event.execution_time)
        task.completion_s = seconds(event.completion_time)
        task.utility, task.tokens = finite(event.achieved_utility), int(event.tokens)
        return size
    segment = task.segments.get(event.segment)
    if segment is None:
        segment = task.segments[event.segment] = RecordedSegment(int(event.segment))
        size += SEGMENT_BYTES
    if not segment.text:
        segment.text = str(event.text)
        size += _size(segment.text)
    if event.event == SEGMENT_STARTED:
        segment.started_s = since_start_s
        if segment.generated_s is None:
            segment.expected_execution_s = seconds(event.expected_execution)
        if event.segment == 0 and task.response_s is None:
            task.response_s = seconds(event.at)
    elif event.event == SEGMENT_ENDED:
        segment.ended_s, segment.error = since_start_s, error
        segment.execution_s = seconds(event.execution_time) or None
    return size


def _add_segment(run: Run, tasks: dict[str, RecordedTask], told: Any) -> int:
    """Take a segment, and return how much room that takes."""
    task = tasks.get(plan_id_of(told))
    if task is None:
        return 0
    segment = task.segments.setdefault(int(told.index), RecordedSegment(int(told.index)))
    segment.text = str(told.text)
    segment.calls = tuple(_call_text(call) for call in told.calls)
    segment.calls_expected_s = tuple(seconds(call.expected_execution) for call in told.calls)
    segment.awaits_value, segment.tokens = bool(told.awaits_value), int(told.tokens)
    segment.generated_s = (_sent_ns(told) - run.start_ns) / 1e9
    segment.generation_s = seconds(told.generation_time)
    segment.expected_execution_s = seconds(told.expected_execution)
    return SEGMENT_BYTES + CALL_BYTES * len(segment.calls) + _size(segment.text, *segment.calls)


def _add_sample(run: Run, state: Any) -> int:
    """Take a state of the engine, and return how much room that takes."""
    sample = EngineSample(
        at_s=(_sent_ns(state) - run.start_ns) / 1e9,
        running=int(state.running),
        suspended=int(state.suspended),
        held=int(state.held),
        queued=int(state.queued),
        kv_tokens=int(state.kv_tokens),
        step_s=seconds(state.step_time),
    )
    run.engine, run.model = str(state.engine), str(state.model)
    run.mode, run.policy = str(state.mode), str(state.policy)
    run.kv_capacity_tokens = int(state.kv_capacity_tokens)
    if sample.at_s >= 0:
        run.samples.append(sample)
    return SAMPLE_BYTES


def _namespace(topic: str) -> str:
    return topic.rpartition('/')[0]


def _known_s(event: Any, name: str) -> float | None:
    told = getattr(event, name, None)
    return None if told is None else seconds(told) or None


def _started(task: RecordedTask) -> bool:
    return any(segment.started_s is not None for segment in task.segments.values())


def _call_text(call: Any) -> str:
    arguments = ','.join(call.argument_texts)
    return f'{call.skill}({arguments})' if arguments else str(call.skill)


def _size(*texts: str) -> int:
    return sum(map(sys.getsizeof, texts))


def _sent_ns(message: Any) -> int:
    return nanoseconds(message.header.stamp)
