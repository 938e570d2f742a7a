"""A trace of a few short tasks that are wholly known: what was asked, planned and measured."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from rclpy.serialization import serialize_message
from std_msgs.msg import String
from timely_llm_ros.msg import SceneObject, SchedulerState, SkillCall, SkillSegment, TaskEvent
from unique_identifier_msgs.msg import UUID

from benchmarks.recorder.synthetic_trace import T0_NS, duration, stamp
from lrtrace.storage.writer import TraceWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

INSTRUCTION = 'take a picture of the cat'
HISTORY = ('where is the cat', 'on the sofa')
CALLS = (('takeoff', 0.11), ('goto(cat_1)', 0.13), ('take_picture', 0.02), ('land', 0.12))


def write_small_trace(
    folder: Path,
    robots: Sequence[str] = ('drone_1', 'drone_2'),
    *,
    unended: Sequence[str] = (),
    refused: str = '',
    world_events: Sequence[str] = (),
    foreign_planner: str = '',
    notes: Mapping[str, str] | None = None,
) -> Path:
    """Write a task for each robot, 0.2 s apart; those of ``unended`` stop after a segment.

    With ``refused`` another one is refused for that, 0.1 s after the first. The plan of a robot
    has the number of its place, from 1 on; ``world_events`` are what a world says, as it says it.
    With ``foreign_planner`` a planner of this namespace tells its state too, later; ``notes`` are
    the trace's own.
    """
    writer = TraceWriter(folder, custom_data=notes)

    def add(topic: str, at_s: float, message: Any) -> None:
        writer.add_topic(topic, f'timely_llm_ros/msg/{type(message).__name__}')
        message.header.stamp = stamp(at_s)
        writer.write(topic, serialize_message(message), log_ns=T0_NS + round(at_s * 1e9))

    for text in world_events:
        writer.add_topic('/world_events', 'std_msgs/msg/String')
        data = serialize_message(String(data=text))
        writer.write('/world_events', data, log_ns=T0_NS + round(2e9))
    if refused:
        message = TaskEvent(event=TaskEvent.REFUSED, robot=robots[0], task_kind='check_on')
        message.instruction, message.error_msg = 'is the cat well', refused
        add('/task_events', 0.1, message)
    state = SchedulerState(engine='torch', model='m', mode='segmented', policy='edf', running=1)
    state.step_time = duration(0.01)
    add('/scheduler_state', 0.0, state)
    if foreign_planner:
        other = SchedulerState(
            engine='vllm', model='n', mode='whole_plan', policy='fcfs', running=9
        )
        add(f'{foreign_planner}/scheduler_state', 0.1, other)
    for number, robot in enumerate(robots):
        received_s = 0.2 * number
        plan_id = UUID(uuid=list(uuid.UUID(int=number + 1).bytes))

        def event(what: int, at_s: float, robot: str = robot, plan: UUID = plan_id) -> TaskEvent:
            message = TaskEvent(event=what, robot=robot, skill_set='tello', plan_id=plan)
            message.at, message.task_kind = duration(at_s), 'look_for'
            message.instruction = INSTRUCTION
            message.utility.expected_response = duration(1.0)
            message.utility.slope_per_s, message.utility.peak = -2.0, 1.0
            return message

        accepted = event(TaskEvent.ACCEPTED, 0.0)
        accepted.scene = [SceneObject(name='cat_1', kind='cat', attribute='black')]
        accepted.scene[0].position.x = 2.0
        accepted.time_budget = duration(30.0)
        accepted.history = list(HISTORY)
        accepted.expected_response, accepted.promised_response = duration(0.05), duration(0.1)
        add('/task_events', received_s, accepted)
        at_s = 0.05
        for index, (call, call_s) in enumerate(CALLS):
            text = f'{call};'
            segment = SkillSegment(robot=robot, skill_set='tello', index=index, text=text, tokens=4)
            segment.plan_id = plan_id
            segment.objects = accepted.scene
            segment.calls = [SkillCall(skill=call.partition('(')[0])]
            segment.generation_time = segment.expected_execution = duration(0.04)
            add(f'/{robot}/skill_segments', received_s + at_s, segment)
            started = event(TaskEvent.SEGMENT_STARTED, at_s + 0.01)
            started.segment, started.text = index, text
            add('/task_events', received_s + at_s + 0.01, started)
            at_s += 0.01 + call_s
            ended = event(TaskEvent.SEGMENT_ENDED, at_s)
            ended.segment, ended.text, ended.calls = index, text, [call]
            ended.call_durations, ended.execution_time = [duration(call_s)], duration(call_s)
            add('/task_events', received_s + at_s, ended)
            if robot in unended:
                break
        else:
            done = event(TaskEvent.ENDED, at_s)
            done.status, done.tokens, done.segments = 4, 16, len(CALLS)
            done.response_time, done.achieved_utility = duration(0.06), 1.0
            add('/task_events', received_s + at_s, done)
    if not unended:
        writer.close()
    else:
        writer.flush()
    return folder
