"""Traces of robots whose calls take known times, made without ROS nodes."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rclpy.serialization import serialize_message
from timely_llm_ros.msg import RobotState, SceneObject, SkillSegment, TaskEvent
from unique_identifier_msgs.msg import UUID

from benchmarks.recorder.synthetic_trace import T0_NS, duration, stamp
from lrtrace.storage.writer import TraceWriter

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

EXECUTION_FAILED = 2


@dataclass
class Executed:
    """A segment: its text, and the calls that the robot made with the time of each (s)."""

    text: str
    calls: list[tuple[str, float]]
    objects: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    skill_set: str = 'tello'
    error_code: int = 0
    unseen: tuple[str, ...] = ()
    """Calls of which no state was recorded."""
    told: bool = False
    """Whether the segment's end says how long each call took."""


def messages(segments: Iterable[Executed]) -> list[tuple[float, str, Any]]:
    """Return (when, topic, message) of tasks of one segment each, one after another."""
    found: list[tuple[float, str, Any]] = []
    at_s = 0.0
    for number, segment in enumerate(segments):
        plan_id = UUID(uuid=list(uuid.UUID(int=number + 1).bytes))
        told = SkillSegment(robot='drone_1', skill_set=segment.skill_set, text=segment.text)
        told.header.stamp, told.plan_id, told.tokens = stamp(at_s), plan_id, 5
        for name, place in segment.objects.items():
            item = SceneObject(name=name, kind=name.rpartition('_')[0])
            item.position.x, item.position.y, item.position.z = place
            told.objects.append(item)
        found.append((at_s, '/drone_1/skill_segments', told))
        elapsed_s = 0.0
        for call, call_s in segment.calls:
            for seen_s in (elapsed_s, elapsed_s + 0.5 * call_s):
                if call in segment.unseen:
                    break
                state = RobotState(robot='drone_1', phase=RobotState.EXECUTING, call=call)
                state.header.stamp, state.plan_id = stamp(at_s + seen_s), plan_id
                state.elapsed = duration(seen_s)
                found.append((at_s + seen_s, '/drone_1/robot_state', state))
            elapsed_s += call_s
        ended = TaskEvent(
            event=TaskEvent.SEGMENT_ENDED,
            robot='drone_1',
            skill_set=segment.skill_set,
            plan_id=plan_id,
            error_code=segment.error_code,
        )
        ended.header.stamp = stamp(at_s + elapsed_s)
        ended.execution_time = duration(elapsed_s)
        if segment.told:
            ended.calls = [call for call, _ in segment.calls]
            ended.call_durations = [duration(call_s) for _, call_s in segment.calls]
        found.append((at_s + elapsed_s, '/task_events', ended))
        at_s += elapsed_s + 1.0
    return sorted(found, key=lambda item: item[0])


def write_calls(folder: Path, segments: Iterable[Executed]) -> Path:
    """Write a trace of segments; return its folder."""
    writer = TraceWriter(folder, custom_data={'robots_are': 'made up'})
    for at_s, topic, message in messages(segments):
        writer.add_topic(topic, f'timely_llm_ros/msg/{type(message).__name__}')
        writer.write(topic, serialize_message(message), log_ns=T0_NS + round(at_s * 1e9))
    writer.close()
    return folder
