"""Traces as files: rosbag2 folders in MCAP, written, read, listed, repaired."""

from lrtrace.storage.definitions import find_definition
from lrtrace.storage.message_values import finite, nanoseconds, scene, seconds
from lrtrace.storage.metadata import TopicQos, qos_profiles
from lrtrace.storage.reader import Trace, TraceMessage
from lrtrace.storage.repair import repair_trace
from lrtrace.storage.to_json import to_json
from lrtrace.storage.writer import TraceWriter

__all__ = [
    'TopicQos', 'Trace', 'TraceMessage', 'TraceWriter', 'find_definition', 'finite', 'nanoseconds',
    'qos_profiles', 'repair_trace', 'scene', 'seconds', 'to_json',
]  # fmt: skip
