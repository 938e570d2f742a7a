"""Reads a trace as the events of which the window shows a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lrtrace.executed_segments import ROBOT_STATE
from lrtrace.storage import FOREIGN, Room
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

LOOKS = (POSE, MARKERS)
"""How a world looks. It may take half of a trace's room, so that tasks have the other half."""

EVENT_BYTES, BYTES_PER_BYTE = 1500, 8
"""What is kept of a message takes about this much memory, and that of its own bytes."""

POSE_BYTES, THING_BYTES, POINT_BYTES, LETTER_BYTES = 600, 1100, 160, 4
"""What a pose takes, and a thing with its points and the letters of its texts."""

NEXT_POSE_S = 0.05
"""A pose that comes sooner after one of its robot is left out (s); a live window is told of half as
many."""

MOST_THINGS = 2000
"""A page shows so many of a topic."""


def read_fleet_events(trace: Trace) -> tuple[list[Event], str]:
    """Return what happened, each event with its time ``t`` (s) in the order of recording.

    Of poses and things only what changes is kept. The text says what is wrong with the trace and
    what found no room; it is empty if nothing.

    Raises:
        TraceError: The trace cannot be read, or its messages are not those of a fleet.
    """
    found: list[Event] = []
    room = trace.room()
    looks = _Looks(Room(room.left // 2))
    room.take(looks.room.left)
    places, damages = ExpectedPlaces(), []
    states: dict[str, Event] = {}
    start_ns, read_s = 0, 0.0
    wanted = set(TYPES)
    try:
        for message in trace.messages(types=wanted):
            start_ns = start_ns or message.log_ns
            read_s = (message.log_ns - start_ns) / 1e9
            t_s = round(message.log_ns / 1e9, 4)
            events = [{**event, 't': t_s} for event in _events(message, places, states)]
            if message.message_type in LOOKS:
                found += (shown for event in events for shown in looks.take(event))
                if looks.room.left < 0:
                    # They are not even decoded from here on: most of a trace may be of these types.
                    wanted -= set(LOOKS)
                    damages.append(f'poses and markers after {read_s:.1f} s: {room.damage}')
                continue
            found += events
            if not events and message.message_type != CATALOGUE:
                continue
            if not room.take(EVENT_BYTES + BYTES_PER_BYTE * len(message.data)):
                damages.append(f'everything after {read_s:.1f} s: {room.damage}')
                break
    except FOREIGN as err:
        raise TraceError(f'trace {str(trace.path)!r}: messages of another package: {err}') from err
    damage = '; '.join(filter(None, (trace.damage, *damages)))
    if not any(event['event'] == 'task' for event in found):
        raise TraceError(
            f'trace {str(trace.path)!r}: no task in the {read_s:.1f} s that were read: expected '
            f'messages of {TASK_EVENT}{"; " if damage else ""}{damage}'
        )
    found.sort(key=lambda event: float(event['t']))
    return found, damage


class _Looks:
    """Lets through what changes how a world looks, until its room is taken."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self._poses: dict[str, tuple[Event, Event]] = {}
        """Of each robot the pose that was let through last, and its latest."""
        self._things: dict[str, dict[str, Event]] = {}
        """By topic and id."""

    def take(self, event: Event) -> list[Event]:
        """Take a ``pose`` or ``things``; return what is to be kept."""
        return self._moved(event) if event['event'] == 'pose' else self._changed(event)

    def _moved(self, pose: Event) -> list[Event]:
        kept, latest = self._poses.get(pose['robot'], (pose, pose))
        if kept is not pose and (
            kept['at'] == pose['at'] or abs(pose['t'] - kept['t']) < NEXT_POSE_S
        ):
            self._poses[pose['robot']] = kept, pose
            return []
        # A page moves a robot from one pose to the next, so that it must know when a rest ended.
        rested = latest is not kept and latest['at'] == kept['at']
        self._poses[pose['robot']] = pose, pose
        shown = [latest, pose] if rested else [pose]
        return shown if self.room.take(POSE_BYTES * len(shown)) else []

    def _changed(self, event: Event) -> list[Event]:
        known = self._things.get(event['source'], {})
        now = dict(known)
        for thing in event['things']:
            name = thing['id']
            if not name:
                now.clear()
            elif not thing['shape']:
                now.pop(name, None)
            elif name in now or len(now) < MOST_THINGS:
                # One that lasts for a time only has to be told again.
                same = not thing['lasts_s'] and known.get(name) == thing
                now[name] = known[name] if same else thing
        self._things[event['source']] = now
        shown: list[Event] = [{'id': name, 'shape': ''} for name in known if name not in now]
        shown += [thing for name, thing in now.items() if known.get(name) is not thing]
        if not shown or not self.room.take(sum(map(_bytes_of, shown))):
            return []
        return [{**event, 'things': shown}]


def _bytes_of(thing: Event) -> int:
    letters = len(thing['id']) + len(thing.get('text', ''))
    return THING_BYTES + POINT_BYTES * len(thing.get('points', ())) + LETTER_BYTES * letters


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
