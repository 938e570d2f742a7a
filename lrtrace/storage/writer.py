"""Writes a trace: a rosbag2 folder with MCAP files and a ``metadata.yaml``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from lrtrace.storage.definitions import find_definition
from lrtrace.storage.mcap_file import McapFile
from lrtrace.storage.metadata import (
    CUSTOM_DATA,
    StoredFile,
    StoredTopic,
    TopicQos,
    bag_information,
    dump,
    qos_profiles,
    write_metadata,
)
from timely_llm_ros import __version__
from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcap.records import Channel, Schema

METADATA_PERIOD_S = 2.0
"""While a trace is written, ``metadata.yaml`` is brought up to date at most this often (s)."""


@dataclass(frozen=True, slots=True)
class _Topic:
    channel_id: int
    name: str
    message_type: str
    metadata: Mapping[str, str]
    profiles: list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class _Definition:
    schema_id: int
    text: str | bytes
    encoding: str


class TraceWriter:
    """Writes serialised messages as they came. Not safe for several threads at once.

    ``metadata.yaml`` is written at the start, with a flush after something changed, at every new
    file and at the end, each time whole or not at all: the folder is a bag at any moment.

    Args:
        folder: A folder that does not exist yet.
        custom_data: What else to know of the run, for example its seed.
        name: What the MCAP files in it are named after; by default the folder.
        max_file_bytes: A file that has as many bytes is ended and another begun; 0 for no limit.
            A file may be longer by what a chunk and its index take.
        max_file_s: So it is with a file whose messages span this time (s).

    Raises:
        TraceError: The folder exists or cannot be made.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        custom_data: Mapping[str, str] | None = None,
        name: str | None = None,
        max_file_bytes: int = 0,
        max_file_s: float = 0.0,
    ) -> None:
        self.folder = Path(folder)
        self._name = name or self.folder.name
        self._max_file_bytes, self._max_file_ns = max_file_bytes, int(max_file_s * 1e9)
        self._custom_data = dict(custom_data or {})
        self._definitions: dict[str, _Definition] = {}
        self._topics: dict[str, _Topic] = {}
        self._ended: list[StoredFile] = []
        self._closed = self._changed = False
        self._written_s = float('-inf')
        try:
            self.folder.mkdir(parents=True)
            stream = self._new_file()
        except OSError as err:
            raise TraceError(f'trace {str(folder)!r}: cannot be made: {err.strerror}') from err
        self._file = self._begin(stream)
        self._write_metadata()

    def _new_file(self) -> BinaryIO:
        self._file_name = f'{self._name}_{len(self._ended)}.mcap'
        return (self.folder / self._file_name).open('xb')

    def _begin(self, stream: BinaryIO) -> McapFile:
        """Begin a file with everything that is known of the topics so far."""
        file = McapFile(stream, library=f'lrtrace {__version__}')
        if self._custom_data:
            file.add_metadata(CUSTOM_DATA, self._custom_data)
        # In the same order as before, so with the same ids.
        for message_type, definition in self._definitions.items():
            file.add_schema(message_type, definition.text, encoding=definition.encoding)
        for topic in self._topics.values():
            file.add_channel(
                topic.name, self._definitions[topic.message_type].schema_id, topic.metadata
            )
        return file

    @property
    def message_count(self) -> int:
        """Messages so far."""
        present = 0 if self._closed else self._file.message_count
        return sum(file.message_count for file in self._ended) + present

    @property
    def size_bytes(self) -> int:
        """Bytes of the file that is written, so far."""
        return self._file.size_bytes

    @property
    def file_count(self) -> int:
        """Files so far."""
        return len(self._ended) + (not self._closed)

    @property
    def topics(self) -> Sequence[str]:
        """Names of the topics so far."""
        return tuple(self._topics)

    def note(self, values: Mapping[str, str]) -> None:
        """Add to what else is known of the run, or change it; kept with the next flush."""
        if any(self._custom_data.get(name) != value for name, value in values.items()):
            self._custom_data |= values
            self._changed = True

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
        self._add_definition(message_type, definition.text, 'ros2msg')
        profiles = [(qos or TopicQos()).profile()]
        self._add_channel(
            name,
            message_type,
            {
                'offered_qos_profiles': dump(profiles),
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
        self._add_definition(schema.name, schema.data, schema.encoding)
        self._add_channel(
            channel.topic,
            schema.name,
            channel.metadata,
            qos_profiles(channel.metadata.get('offered_qos_profiles', '')),
        )

    def _add_definition(self, message_type: str, text: str | bytes, encoding: str) -> None:
        if message_type not in self._definitions:
            schema_id = self._file.add_schema(message_type, text, encoding=encoding)
            self._definitions[message_type] = _Definition(schema_id, text, encoding)

    def _add_channel(
        self,
        name: str,
        message_type: str,
        metadata: Mapping[str, str],
        profiles: list[dict[str, object]],
    ) -> None:
        schema_id = self._definitions[message_type].schema_id
        channel_id = self._file.add_channel(name, schema_id, metadata)
        self._topics[name] = _Topic(channel_id, name, message_type, dict(metadata), profiles)
        self._changed = True

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
        if self._is_full(log_ns):
            self._next_file()
        self._file.add_message(
            self._topics[topic].channel_id,
            data,
            log_ns=log_ns,
            publish_ns=log_ns if publish_ns is None else publish_ns,
            sequence=sequence,
        )

    def _is_full(self, log_ns: int) -> bool:
        if not self._file.message_count:
            return False
        if self._max_file_bytes and self._file.size_bytes >= self._max_file_bytes:
            return True
        return bool(self._max_file_ns) and log_ns - self._file.start_ns >= self._max_file_ns

    def _next_file(self) -> None:
        self._ended.append(self._end_file())
        self._file = self._begin(self._new_file())
        self._write_metadata()

    def flush(self) -> None:
        """Make everything written so far survive a kill of this process."""
        self._file.flush()
        if self._changed and time.monotonic() - self._written_s >= METADATA_PERIOD_S:
            self._write_metadata()

    def close(self) -> None:
        """End the file and write the final metadata; idempotent."""
        if self._closed:
            return
        self._closed = True
        self._ended.append(self._end_file())
        self._write_metadata(self._ended)

    def _end_file(self) -> StoredFile:
        """End the present file; it says itself what the bag is so far, as rosbag2's do."""
        self._file.flush()
        if self._custom_data:
            self._file.add_metadata(CUSTOM_DATA, self._custom_data)
        information = self._information([*self._ended, self._present])
        self._file.add_metadata('rosbag2', {'serialized_metadata': dump(information)})
        self._file.finish()
        return self._present

    @property
    def _present(self) -> StoredFile:
        file = self._file
        return StoredFile(
            self._file_name, file.start_ns, file.end_ns, file.message_count, dict(file.counts)
        )

    def _information(self, files: Sequence[StoredFile]) -> dict[str, Any]:
        topics = [
            StoredTopic(
                topic.name,
                topic.message_type,
                topic.metadata.get('topic_type_hash', ''),
                topic.profiles,
                sum(file.counts.get(topic.channel_id, 0) for file in files),
            )
            for topic in self._topics.values()
        ]
        return bag_information(files, topics, self._custom_data)

    def _write_metadata(self, files: Sequence[StoredFile] | None = None) -> None:
        write_metadata(self.folder, self._information(files or [*self._ended, self._present]))
        self._changed, self._written_s = False, time.monotonic()
