"""What messages of a fleet say, as plain JSON values, for pages and for programs without ROS.

Every function takes a message, as rclpy receives it or as a trace holds it, and returns an event: a
dict with ``event``, which is ``task``, ``segment``, ``unapproved``, ``scheduler``, ``robot``,
``pose`` or ``things``. Messages may come from anybody, so texts and lists are cut to a length.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Event = dict[str, Any]
"""One thing that happened, with its sort as ``event``."""

TASK_EVENTS = ('accepted', 'refused', 'segment_started', 'segment_ended', 'ended')
"""What may happen to a task, by the number in ``msg/TaskEvent``."""

ROBOT_PHASES = ('idle', 'executing', 'waiting', 'safe', 'lost')
"""Phases of a robot, by the number in ``msg/RobotState``."""

GENERATION_PHASES = ('queued', 'running', 'suspended', 'held', 'ended')
"""Phases of a generation, by the number in ``msg/GenerationState``."""

SHAPES = {1: 'box', 2: 'ball', 3: 'cylinder', 4: 'line', 9: 'text'}
"""Markers that are shown, by the type in ``visualization_msgs/msg/Marker``."""

MOST_LETTERS, MOST_OBJECTS, MOST_CALLS, MOST_POINTS = 1000, 300, 100, 500

_SCHEDULER_FIELDS = (
    'engine', 'mode', 'policy', 'running', 'suspended', 'held', 'queued', 'kv_tokens',
    'kv_capacity_tokens',
)  # fmt: skip


def task_event(message: Any) -> Event:
    """Return what a ``msg/TaskEvent`` says; traces of older versions lack some of its fields."""
    told: Event = {
        'event': 'task',
        'what': _of(TASK_EVENTS, message.event),
        'plan': plan_of(message),
        'robot': _text(message.robot),
        'skill_set': _text(message.skill_set),
        'kind': _text(message.task_kind),
        'instruction': _text(message.instruction),
        'expected_response_s': seconds(message.utility.expected_response),
        'slope_per_s': message.utility.slope_per_s,
        'peak': message.utility.peak,
        'at_s': seconds(message.at),
        'segment': message.segment,
        'status': message.status,
        'error': _text(message.error_msg),
        'utility': message.achieved_utility,
    }
    match told['what']:
        case 'accepted':
            told['scene'] = [scene_object(item) for item in islice(message.scene, MOST_OBJECTS)]
            told['why_robot'] = _text(getattr(message, 'why_robot', ''))
        case 'segment_started':
            told['expected_execution_s'] = seconds(message.expected_execution)
            told['text'] = _text(message.text)
        case 'segment_ended':
            calls = getattr(message, 'calls', ())
            told['calls'] = [_text(call) for call in islice(calls, MOST_CALLS)]
        case _:
            pass
    return told


def segment_event(message: Any) -> Event:
    """Return what a ``msg/SkillSegment`` says."""
    return {
        'event': 'segment',
        'plan': plan_of(message),
        'robot': _text(message.robot),
        'index': message.index,
        'text': _text(message.text),
        'stamp_s': seconds(message.header.stamp),
        'tokens': message.tokens,
        'generation_s': seconds(message.generation_time),
        'expected_execution_s': seconds(message.expected_execution),
        'awaits_value': message.awaits_value,
    }


def unapproved_event(message: Any) -> Event:
    """Return the plans that wait for somebody's approval by a ``msg/PendingApprovals``."""
    asked = islice(message.approvals, MOST_OBJECTS)
    return {'event': 'unapproved', 'plans': sorted({plan_of(one) for one in asked})}


def scheduler_event(message: Any) -> Event:
    """Return what a ``msg/SchedulerState`` says; its generations as lists of four values.

    They are plan, phase, segments so far and private tokens in the KV cache.
    """
    told = {name: getattr(message, name) for name in _SCHEDULER_FIELDS}
    generations = [
        [plan_of(item), _of(GENERATION_PHASES, item.phase), item.segments, item.kv_tokens]
        for item in islice(message.generations, MOST_OBJECTS)
    ]
    step_s = seconds(message.step_time)
    return {'event': 'scheduler', **told, 'step_s': step_s, 'generations': generations}


def robot_event(robot: str, message: Any) -> Event:
    """Return what a ``msg/RobotState`` says of a robot. Equal events say nothing new."""
    return {
        'event': 'robot',
        'robot': robot,
        'skill_set': _text(message.skill_set),
        'phase': _of(ROBOT_PHASES, message.phase),
        'plan': plan_of(message),
        'segment': message.segment,
        'call': _text(message.call),
        'queued_segments': message.queued_segments,
        # Older traces do not have them.
        'halted': bool(getattr(message, 'halted', False)),
        'inactive': bool(getattr(message, 'inactive', False)),
    }


def pose_event(robot: str, pose: Any) -> Event:
    """Return where a robot is by a ``geometry_msgs/msg/Pose``: x, y, z (m) and heading (rad)."""
    place, turned = pose.position, pose.orientation
    heading_rad = math.atan2(
        2 * (turned.w * turned.z + turned.x * turned.y),
        1 - 2 * (turned.y * turned.y + turned.z * turned.z),
    )
    at = [round(value, 3) for value in (place.x, place.y, place.z, heading_rad)]
    return {'event': 'pose', 'robot': robot, 'at': at}


def things_event(source: str, message: Any) -> Event:
    """Return what a ``visualization_msgs/msg/MarkerArray`` of a topic shows."""
    return {
        'event': 'things',
        'source': source,
        'things': list(_things(islice(message.markers, 4 * MOST_OBJECTS))),
    }


def scene_object(item: Any) -> list[Any]:
    """Return a ``SceneObject``: name, kind, attribute, relation, support, x, y, z (m) and frame."""
    at = item.position
    place = [round(value, 3) for value in (at.x, at.y, at.z)]
    words = (item.name, item.kind, item.attribute, item.relation, item.support)
    # Older traces have no frames.
    frame = item.header.frame_id if hasattr(item, 'header') else ''
    return [*map(_text, words), *place, _text(frame)]


def plan_of(message: Any) -> str:
    """Return the id of a message's plan, as hexadecimal digits."""
    return bytes(message.plan_id.uuid).hex()


def seconds(duration: Any) -> float:
    """Return a time or duration message in s."""
    return float(duration.sec + duration.nanosec / 1e9)


def _things(markers: Iterable[Any]) -> Iterator[Event]:
    for marker in markers:
        if marker.action not in (0, 2, 3):
            continue
        at, size, color = marker.pose.position, marker.scale, marker.color
        gone = marker.action != 0
        yield {
            'id': f'{_text(marker.ns)}/{marker.id}' if marker.action != 3 else '',
            'shape': '' if gone else SHAPES.get(marker.type, ''),
            'at': pose_event('', marker.pose)['at'],
            'size': [round(value, 3) for value in (size.x, size.y, size.z)],
            'color': [round(value, 3) for value in (color.r, color.g, color.b, color.a)],
            'text': _text(marker.text),
            'points': [
                [round(at.x + one.x, 3), round(at.y + one.y, 3), round(at.z + one.z, 3)]
                for one in islice(marker.points, MOST_POINTS)
            ],
            'lasts_s': seconds(marker.lifetime),
        }


def _of(names: tuple[str, ...], number: int) -> str:
    return names[number] if 0 <= number < len(names) else 'unknown'


def _text(text: str) -> str:
    return str(text)[:MOST_LETTERS]
