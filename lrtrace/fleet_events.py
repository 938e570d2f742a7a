"""Reads a trace as the events of which the window shows a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lrtrace.executed_segments import ROBOT_STATE
from lrtrace.storage import FOREIGN
from lrtrace.timeline import SCHEDULER_STATE, SKILL_SEGMENT, TASK_EVENT
from timely_llm_ros.errors import TraceError
from timely_llm_ros.window import (
    ExpectedPlaces,
    pose_event,
    robot_event,
    scheduler_event,
    segment_event,
    task_event,
    things_event,
    unapproved_event,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lrtrace.storage import Trace, TraceMessage
    from timely_llm_ros.window import Event

POSE = 'geometry_msgs/msg/PoseStamped'
MARKERS = 'visualization_msgs/msg/MarkerArray'
CATALOGUE = 'std_msgs/msg/String'
PENDING_APPROVALS = 'timely_llm_ros/msg/PendingApprovals'

TYPES = (
    TASK_EVENT,
    SKILL_SEGMENT,
    SCHEDULER_STATE,
    ROBOT_STATE,
    POSE,
    MARKERS,
    CATALOGUE,
    PENDING_APPROVALS,
)

EVENT_BYTES, BYTES_PER_BYTE = 1500, 8
"""What is kept of a message takes about this much memory, and that of its own bytes."""


def read_fleet_events(trace: Trace) -> tuple[list[Event], str]:
    """Return what happened, each event with its time ``t`` (s) in the order of recording.

    The text says what is wrong with the trace and what found no room; it is empty if nothing.

    Raises:
        TraceError: The trace cannot be read, or its messages are not those of a fleet.
    """
    found: list[Event] = []
    room = trace.room()
    places, damage = ExpectedPlaces(), ''
    states: dict[str, Event] = {}
    try:
        for message in trace.messages(types=TYPES):
            t_s = round(message.log_ns / 1e9, 4)
            found += [{**event, 't': t_s} for event in _events(message, places, states)]
            if not room.take(EVENT_BYTES + BYTES_PER_BYTE * len(message.data)):
                damage = room.damage
                break
    except FOREIGN as err:
        raise TraceError(f'trace {str(trace.path)!r}: messages of another package: {err}') from err
    if not any(event['event'] == 'task' for event in found):
        raise TraceError(f'trace {str(trace.path)!r}: no task: expected messages of {TASK_EVENT}')
    found.sort(key=lambda event: float(event['t']))
    return found, '; '.join(filter(None, (trace.damage, damage)))


def _events(
    message: TraceMessage, places: ExpectedPlaces, states: dict[str, Event]
) -> Iterator[Event]:
    value: Any = message.value
    parent, _, name = message.topic.rpartition('/')
    event: Event | None = None
    match message.message_type:
        case 'timely_llm_ros/msg/TaskEvent':
            event = task_event(value)
        case 'timely_llm_ros/msg/SkillSegment':
            event = segment_event(value)
        case 'timely_llm_ros/msg/SchedulerState':
            event = scheduler_event(value)
        case 'timely_llm_ros/msg/PendingApprovals':
            event = unapproved_event(value)
        case 'timely_llm_ros/msg/RobotState':
            event = robot_event(str(value.robot), value)
            if states.get(event['robot']) == event:
                return
            states[event['robot']] = event
        case 'geometry_msgs/msg/PoseStamped' if name == 'pose':
            event = pose_event(parent.rpartition('/')[2], value.pose)
        case 'visualization_msgs/msg/MarkerArray' if name != 'scene_markers':
            event = things_event(name, value)
        case 'std_msgs/msg/String' if name == 'skill_catalogue':
            places.learn(str(value.data))
        case _:
            pass
    if event is not None:
        yield event
        yield from places.take(event)
