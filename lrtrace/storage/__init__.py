"""Traces as files: rosbag2 folders in MCAP, written, read, listed, repaired."""

from lrtrace.storage.definitions import find_definition
from lrtrace.storage.message_values import (
    FOREIGN,
    finite,
    nanoseconds,
    plan_id_of,
    scene,
    seconds,
)
from lrtrace.storage.metadata import TopicQos, qos_profiles
from lrtrace.storage.reader import Room, Trace, TraceMessage
from lrtrace.storage.repair import repair_trace
from lrtrace.storage.to_json import json_pieces, to_json
from lrtrace.storage.writer import TraceWriter

__all__ = [
    'FOREIGN', 'Room', 'TopicQos', 'Trace', 'TraceMessage', 'TraceWriter', 'find_definition',
    'finite', 'json_pieces', 'nanoseconds', 'plan_id_of', 'qos_profiles', 'repair_trace', 'scene',
    'seconds', 'to_json',
]  # fmt: skip
