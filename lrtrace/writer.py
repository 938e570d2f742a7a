"""Writes a trace: a rosbag2 folder with one MCAP file and a ``metadata.yaml``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lrtrace.definitions import find_definition
from lrtrace.mcap_file import McapFile
from timely_llm_ros import __version__
from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcap.records import Channel, Schema

METADATA_VERSION = 9
"""Layout of ``metadata.yaml``: that of ROS 2 Jazzy and later."""


@dataclass(frozen=True, slots=True)
class TopicQos:
    """What a topic's publisher offers, in rosbag2's words.

    Attributes:
        reliability: ``reliable`` or ``best_effort``.
        durability: ``volatile`` or ``transient_local``.
        depth: Messages that it keeps.
    """

    reliability: str = 'reliable'
    durability: str = 'volatile'
    depth: int = 10

    def profile(self) -> dict[str, object]:
        """Return the profile as rosbag2 writes it."""
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


class _PlainDumper(yaml.SafeDumper):
    """Writes equal values out twice: not every YAML reader follows references."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True: nothing is written as a reference."""
        return True


def _yaml(value: object) -> str:
    return yaml.dump(value, Dumper=_PlainDumper, sort_keys=False)


def _profiles(text: str) -> list[dict[str, object]]:
    """Return the QoS profiles that a topic's metadata names; none if it is not sound."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return []
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


@dataclass(frozen=True, slots=True)
class _Topic:
    channel_id: int
    name: str
    message_type: str
    type_hash: str
    profiles: list[dict[str, object]]


class TraceWriter:
    """Writes serialised messages as they came. Not safe for several threads at once.

    ``metadata.yaml`` is written at the start, at every new topic and at the end, each time whole
    or not at all, so that the folder is a bag at any moment.

    Args:
        folder: A folder that does not exist yet.
        custom_data: What else to know of the run, for example its seed.
        name: What the MCAP file in it is named after; by default the folder.

    Raises:
        TraceError: The folder exists or cannot be made.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        custom_data: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> None:
        self.folder = Path(folder)
        self._custom_data = dict(custom_data or {})
        try:
            self.folder.mkdir(parents=True)
            stream = (self.folder / f'{name or self.folder.name}_0.mcap').open('xb')
        except OSError as err:
            raise TraceError(f'trace {str(folder)!r}: cannot be made: {err.strerror}') from err
        self._file_name = Path(stream.name).name
        self._file = McapFile(stream, library=f'lrtrace {__version__}')
        self._schema_ids: dict[str, int] = {}
        self._topics: dict[str, _Topic] = {}
        self._closed = False
        if self._custom_data:
            self._file.add_metadata('timely_llm_ros', self._custom_data)
        self._write_metadata()

    @property
    def message_count(self) -> int:
        """Messages so far."""
        return self._file.message_count

    @property
    def pending_bytes(self) -> int:
        """Bytes of messages that would be lost if the process were killed now."""
        return self._file.pending_bytes

    @property
    def topics(self) -> Sequence[str]:
        """Names of the topics so far."""
        return tuple(self._topics)

    def add_topic(self, name: str, message_type: str, qos: TopicQos | None = None) -> None:
        """Add a topic; no-op if it is there already.

        Args:
            name: Its full name.
            message_type: ``package/msg/Type``; its definition must be installed.
            qos: What its publisher offers.

        Raises:
            TraceError: The type's definition cannot be found.
        """
        if name in self._topics:
            return
        definition = find_definition(message_type)
        if message_type not in self._schema_ids:
            self._schema_ids[message_type] = self._file.add_schema(message_type, definition.text)
        profiles = [(qos or TopicQos()).profile()]
        self._add_channel(
            name,
            message_type,
            {
                'offered_qos_profiles': _yaml(profiles),
                'topic_type_hash': definition.type_hash,
            },
            profiles,
        )

    def copy_topic(self, schema: Schema, channel: Channel) -> None:
        """Add a topic as another MCAP file has it; no-op if it is there already.

        Args:
            schema: Its message definition.
            channel: The topic.

        Raises:
            TraceError: It is no topic of ROS 2, or is there already with another type.
        """
        known = self._topics.get(channel.topic)
        if known is not None:
            if known.message_type != schema.name:
                raise TraceError(
                    f'topic {channel.topic}: type {schema.name}: expected {known.message_type} '
                    'as before'
                )
            return
        if channel.message_encoding != 'cdr':
            raise TraceError(
                f'topic {channel.topic}: encoding {channel.message_encoding!r}: expected cdr, '
                'as messages of ROS 2 have it'
            )
        if schema.name not in self._schema_ids:
            self._schema_ids[schema.name] = self._file.add_schema(
                schema.name, schema.data, encoding=schema.encoding
            )
        self._add_channel(
            channel.topic,
            schema.name,
            channel.metadata,
            _profiles(channel.metadata.get('offered_qos_profiles', '')),
        )

    def _add_channel(
        self,
        name: str,
        message_type: str,
        metadata: Mapping[str, str],
        profiles: list[dict[str, object]],
    ) -> None:
        channel_id = self._file.add_channel(name, self._schema_ids[message_type], metadata)
        type_hash = metadata.get('topic_type_hash', '')
        self._topics[name] = _Topic(channel_id, name, message_type, type_hash, profiles)
        self._write_metadata()

    def write(
        self,
        topic: str,
        data: bytes,
        *,
        log_ns: int,
        publish_ns: int | None = None,
        sequence: int = 0,
    ) -> None:
        """Add one serialised message of a topic that was added before.

        Args:
            topic: Its full name.
            data: CDR bytes as received.
            log_ns: When it was received (ns since the epoch).
            publish_ns: When it was sent, by default ``log_ns``.
            sequence: Its publisher's number, 0 for none.
        """
        self._file.add_message(
            self._topics[topic].channel_id,
            data,
            log_ns=log_ns,
            publish_ns=log_ns if publish_ns is None else publish_ns,
            sequence=sequence,
        )

    def flush(self) -> None:
        """Make everything written so far survive a kill of this process."""
        self._file.flush()

    def close(self) -> None:
        """End the file and write the final metadata; idempotent."""
        if self._closed:
            return
        self._closed = True
        self._file.flush()
        self._file.add_metadata('rosbag2', {'serialized_metadata': _yaml(self._information())})
        self._file.finish()
        self._write_metadata()

    def _information(self) -> dict[str, Any]:
        file = self._file
        times = {
            'starting_time': {'nanoseconds_since_epoch': file.start_ns},
            'duration': {'nanoseconds': file.end_ns - file.start_ns},
            'message_count': file.message_count,
        }
        return {
            'version': METADATA_VERSION,
            'storage_identifier': 'mcap',
            'relative_file_paths': [self._file_name],
            **times,
            'topics_with_message_count': [
                {
                    'topic_metadata': {
                        'name': topic.name,
                        'type': topic.message_type,
                        'serialization_format': 'cdr',
                        'offered_qos_profiles': topic.profiles,
                        'type_description_hash': topic.type_hash,
                    },
                    'message_count': file.counts[topic.channel_id],
                }
                for topic in self._topics.values()
            ],
            'compression_format': '',
            'compression_mode': '',
            'files': [{'path': self._file_name, **times}],
            'custom_data': dict(self._custom_data) or None,
            'ros_distro': os.environ.get('ROS_DISTRO', 'unknown'),
        }

    def _write_metadata(self) -> None:
        path = self.folder / 'metadata.yaml'
        new = path.with_suffix('.yaml.new')
        text = _yaml({'rosbag2_bagfile_information': self._information()})
        new.write_text(text, encoding='utf-8')
        os.replace(new, path)
