"""The ``metadata.yaml`` of a rosbag2 folder."""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

METADATA_VERSION = 9
"""Layout of ``metadata.yaml``: that of ROS 2 Jazzy and later."""

MAX_YAML_LETTERS = 4_000_000
MAX_YAML_EVENTS = 100_000
"""Longer metadata, or of more values, is not read; 1000 topics take about half of it."""

MAX_PROFILES = 20
"""So many different QoS profiles of a topic are kept."""

ENDING = '# ended: '
"""Begins the last line of ``metadata.yaml``. It has room for a reason from the beginning, since a
full disk has none."""

ENDING_BYTES = 100

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
    text: str
    """What ``metadata.yaml`` says of it; kept, since of many topics it would take long to make."""

    @staticmethod
    def make(
        channel_id: int, name: str, message_type: str, metadata: Mapping[str, str]
    ) -> StoredTopic:
        """Return the topic of a channel."""
        told = {
            'name': name,
            'type': message_type,
            'serialization_format': 'cdr',
            'offered_qos_profiles': qos_profiles(metadata.get('offered_qos_profiles', '')),
            'type_description_hash': metadata.get('topic_type_hash', ''),
        }
        text = dump([{'topic_metadata': told}])
        return StoredTopic(channel_id, name, message_type, dict(metadata), text)


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


def load(text: str) -> Any:
    """Return what YAML says.

    Raises:
        yaml.YAMLError: It is not sound, or would take far more memory than its text.
    """
    if len(text) > MAX_YAML_LETTERS:
        raise yaml.YAMLError(f'{len(text)} letters: expected at most {MAX_YAML_LETTERS}')
    try:
        for number, event in enumerate(yaml.parse(text, Loader=_Loader)):
            # References to references unfold without end.
            if number > MAX_YAML_EVENTS or isinstance(event, yaml.AliasEvent):
                raise yaml.YAMLError('a reference, or too many values: expected plain metadata')
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - it is a safe one
    except (ValueError, OverflowError, RecursionError) as err:
        # Of dates and numbers that there are not, for example.
        raise yaml.YAMLError(str(err)) from err


def load_file(path: Path) -> Any:
    """Return what a file of YAML says.

    Raises:
        OSError: It cannot be read.
        UnicodeDecodeError: It is no text.
        yaml.YAMLError: As :func:`load`.
    """
    with path.open(encoding='utf-8') as stream:
        return load(stream.read(MAX_YAML_LETTERS + 1))


def qos_profiles(text: str) -> list[dict[str, object]]:
    """Return the QoS profiles in a channel's ``offered_qos_profiles``; none if they are unsound."""
    try:
        loaded = load(text)
    except yaml.YAMLError:
        return []
    found: list[dict[str, object]] = []
    for item in loaded if isinstance(loaded, list) else ():
        if isinstance(item, dict) and len(found) < MAX_PROFILES:
            profile = {
                name: item[name] for name in TopicQos().profile() if _is_plain(item.get(name))
            }
            if profile and profile not in found:
                found.append(profile)
    return found


def _is_plain(value: object) -> bool:
    """Tell whether it is a value of a QoS profile: a word, a number or a duration."""
    if isinstance(value, dict):
        return len(value) == 2 and all(isinstance(part, int) for part in value.values())
    return isinstance(value, (str, int))


def bag_information(
    files: Sequence[StoredFile], topics: Collection[StoredTopic], custom_data: Mapping[str, str]
) -> str:
    """Return ``metadata.yaml`` as far as its ``rosbag2_bagfile_information``, for some files."""
    full = [file for file in files if file.message_count]
    start_ns = min((file.start_ns for file in full), default=0)
    end_ns = max((file.end_ns for file in full), default=0)
    head = {
        'version': METADATA_VERSION,
        'storage_identifier': 'mcap',
        'relative_file_paths': [file.name for file in files],
        **_times(start_ns, end_ns, sum(file.message_count for file in files)),
    }
    tail = {
        'compression_format': '',
        'compression_mode': '',
        'files': [
            {'path': file.name, **_times(file.start_ns, file.end_ns, file.message_count)}
            for file in files
        ],
        'custom_data': dict(custom_data) or None,
        'ros_distro': os.environ.get('ROS_DISTRO', 'unknown'),
    }
    counts = (sum(file.counts.get(topic.channel_id, 0) for file in files) for topic in topics)
    listed = ''.join(
        f'{topic.text}  message_count: {count}\n'
        for topic, count in zip(topics, counts, strict=True)
    )
    middle = (
        f'topics_with_message_count:\n{listed}' if listed else 'topics_with_message_count: []\n'
    )
    return f'{dump(head)}{middle}{dump(tail)}'


def _times(start_ns: int, end_ns: int, messages: int) -> dict[str, object]:
    return {
        'starting_time': {'nanoseconds_since_epoch': start_ns},
        'duration': {'nanoseconds': end_ns - start_ns},
        'message_count': messages,
    }


def _indented(text: str) -> str:
    return textwrap.indent(text, '  ')


def write_metadata(folder: Path, information: str) -> None:
    """Replace a folder's ``metadata.yaml``, whole or not at all."""
    path = folder / 'metadata.yaml'
    new = path.with_suffix('.yaml.new')
    text = f'rosbag2_bagfile_information:\n{_indented(information)}{ENDING}{" " * ENDING_BYTES}\n'
    new.write_text(text, encoding='utf-8')
    new.replace(path)


def note_ending(folder: Path, why: str) -> None:
    """Note in ``metadata.yaml`` why the trace ends where it does; that takes no room on the disk.

    Raises:
        OSError: It cannot be written.
    """
    path = folder / 'metadata.yaml'
    line = ' '.join(why.split()).encode('ascii', 'replace')[:ENDING_BYTES]
    with path.open('r+b') as stream:
        stream.seek(-ENDING_BYTES - 1, os.SEEK_END)
        stream.write(line.ljust(ENDING_BYTES))


def read_ending(folder: Path) -> str:
    """Return why a trace ends where it does; empty if nothing is known of it."""
    try:
        with (folder / 'metadata.yaml').open('rb') as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - len(ENDING) - ENDING_BYTES - 1))
            found = stream.read().decode('ascii', 'replace')
    except OSError:
        return ''
    return found[len(ENDING) :].strip() if found.startswith(ENDING) else ''
