"""A page for whoever watches a fleet: what happens, as events, and where robots are by them.

Its server is in ``serving``, which needs the package websockets.
"""

from timely_llm_ros.window.access import WindowOptions
from timely_llm_ros.window.expected_places import ExpectedPlaces
from timely_llm_ros.window.fleet_events import (
    Event,
    pose_event,
    robot_event,
    scene_object,
    scheduler_event,
    segment_event,
    task_event,
    things_event,
    unapproved_event,
)
from timely_llm_ros.window.fleet_log import FleetLog, to_text

__all__ = [
    'Event', 'ExpectedPlaces', 'FleetLog', 'WindowOptions', 'pose_event', 'robot_event',
    'scene_object', 'scheduler_event', 'segment_event', 'task_event', 'things_event', 'to_text',
    'unapproved_event',
]  # fmt: skip
