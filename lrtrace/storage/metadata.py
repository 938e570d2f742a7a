"""The ``metadata.yaml`` of a rosbag2 folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

METADATA_VERSION = 9
"""Layout of ``metadata.yaml``: that of ROS 2 Jazzy and later."""

CUSTOM_DATA = 'timely_llm_ros'
"""Name of the MCAP metadata records that hold a trace's custom data."""


@dataclass(frozen=True, slots=True)
class TopicQos:
    """The QoS that a topic's publisher offers, in rosbag2's words."""

    reliability: str = 'reliable'
    """``reliable`` or ``best_effort``."""

    durability: str = 'volatile'
    """``volatile`` or ``transient_local``."""

    depth: int = 10

    def profile(self) -> dict[str, object]:
        """Return the profile that rosbag2 writes for it."""
        forever = {'sec': 9223372036, 'nsec': 854775807}
        return {
            'history': 'keep_last',
            'depth': self.depth,
            'reliability': self.reliability,
            'durability': self.durability,
            'deadline': dict(forever),
            'lifespan': dict(forever),
            'liveliness': 'automatic',
            'liveliness_lease_duration': dict(forever),
            'avoid_ros_namespace_conventions': False,
        }


@dataclass(frozen=True, slots=True)
class StoredTopic:
    """A topic of a trace; ``metadata`` is that of its MCAP channels."""

    channel_id: int
    name: str
    message_type: str
    metadata: Mapping[str, str]
    profiles: Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One of a trace's files: its earliest and latest log times, its messages by channel."""

    name: str
    start_ns: int
    end_ns: int
    counts: Mapping[int, int]

    @property
    def message_count(self) -> int:
        """Messages in it."""
        return sum(self.counts.values())


class _Dumper(getattr(yaml, 'CSafeDumper', yaml.SafeDumper)):  # type: ignore[misc]
    """Writes no references, which not every YAML reader follows."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's interface
        """Have equal values written out each time."""
        return True


_Loader = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)


def dump(value: object) -> str:
    """Return a value as YAML; its keys keep their order."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False))


def qos_profiles(text: str) -> list[dict[str, object]]:
    """Return the QoS profiles in a channel's ``offered_qos_profiles``; none if they are unsound."""
    try:
        found = yaml.load(text, Loader=_Loader)  # noqa: S506 - it is a safe one
    except yaml.YAMLError:
        return []
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def bag_information(
    files: Sequence[StoredFile], topics: Iterable[StoredTopic], custom_data: Mapping[str, str]
) -> dict[str, Any]:
    """Return the content of ``rosbag2_bagfile_information``, for one file or more."""
    full = [file for file in files if file.message_count]
    start_ns = min((file.start_ns for file in full), default=0)
    end_ns = max((file.end_ns for file in full), default=0)
    return {
        'version': METADATA_VERSION,
        'storage_identifier': 'mcap',
        'relative_file_paths': [file.name for file in files],
        **_times(start_ns, end_ns, sum(file.message_count for file in files)),
        'topics_with_message_count': [
            {
                'topic_metadata': {
                    'name': topic.name,
                    'type': topic.message_type,
                    'serialization_format': 'cdr',
                    'offered_qos_profiles': [*topic.profiles],
                    'type_description_hash': topic.metadata.get('topic_type_hash', ''),
                },
                'message_count': sum(file.counts.get(topic.channel_id, 0) for file in files),
            }
            for topic in topics
        ],
        'compression_format': '',
        'compression_mode': '',
        'files': [
            {'path': file.name, **_times(file.start_ns, file.end_ns, file.message_count)}
            for file in files
        ],
        'custom_data': dict(custom_data) or None,
        'ros_distro': os.environ.get('ROS_DISTRO', 'unknown'),
    }


def _times(start_ns: int, end_ns: int, messages: int) -> dict[str, object]:
    return {
        'starting_time': {'nanoseconds_since_epoch': start_ns},
        'duration': {'nanoseconds': end_ns - start_ns},
        'message_count': messages,
    }


def write_metadata(folder: Path, information: Mapping[str, Any]) -> None:
    """Replace a folder's ``metadata.yaml``, whole or not at all."""
    path = folder / 'metadata.yaml'
    new = path.with_suffix('.yaml.new')
    text = dump({'rosbag2_bagfile_information': dict(information)})
    new.write_text(text, encoding='utf-8')
    new.replace(path)
