"""Writes traces: rosbag2 folders with MCAP files and a ``metadata.yaml``."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from errno import EEXIST
from pathlib import Path
from typing import TYPE_CHECKING

from lrtrace.storage.definitions import find_definition
from lrtrace.storage.mcap_file import McapFile
from lrtrace.storage.metadata import (
    CUSTOM_DATA,
    StoredFile,
    StoredTopic,
    TopicQos,
    bag_information,
    dump,
    note_ending,
    write_metadata,
)
from timely_llm_ros import __version__
from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import FileIO

    from mcap.records import Channel, Schema

METADATA_PERIOD_S = 2.0
"""A flush replaces ``metadata.yaml`` at most this often (s)."""


class TraceWriter:
    """Writes serialised messages into a new folder. For one thread at a time.

    The folder is a bag at any moment: ``metadata.yaml`` is replaced at the start and the end, at
    every new file, and with a flush after something changed.

    Args:
        folder: A folder that does not exist yet.
        custom_data: Notes on the run, for example its seed.
        name: What the MCAP files are named after; by default the folder.
        max_file_bytes: A file of this size is ended and another begun; 0 for no limit. A file may
            be longer by a chunk and its index.
        max_file_s: The same for the time that a file's messages span (s).

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
        self._schemas: dict[str, Schema] = {}
        self._topics: dict[str, StoredTopic] = {}
        self._ended: list[StoredFile] = []
        self._closed = self._changed = False
        self._written_s = float('-inf')
        made = False
        try:
            self.folder.mkdir(parents=True)
            made = True
            self._file = self._begin(self._open(0))
            self._write_metadata()
        except OSError as err:
            if made:
                shutil.rmtree(self.folder, ignore_errors=True)
            expected = ': expected a folder that is not there yet' if err.errno == EEXIST else ''
            raise TraceError(
                f'trace {str(folder)!r}: cannot be made: {err.strerror}{expected}'
            ) from err

    def _file_name(self, number: int) -> str:
        return f'{self._name}_{number}.mcap'

    def _open(self, number: int) -> FileIO:
        # What waits in a buffer of Python's own would be written again after a full disk.
        return (self.folder / self._file_name(number)).open('xb', buffering=0)

    def _begin(self, stream: FileIO) -> McapFile:
        """Begin a file with all topics so far, which keep their ids."""
        file = McapFile(stream, library=f'lrtrace {__version__}')
        if self._custom_data:
            file.add_metadata(CUSTOM_DATA, self._custom_data)
        for schema in self._schemas.values():
            file.add_schema(schema.name, schema.data, encoding=schema.encoding)
        for topic in self._topics.values():
            file.add_channel(topic.name, self._schemas[topic.message_type].id, topic.metadata)
        return file

    @property
    def message_count(self) -> int:
        """Messages so far."""
        return sum(file.message_count for file in self._files)

    @property
    def file_count(self) -> int:
        """Files so far."""
        return len(self._files)

    @property
    def topic_count(self) -> int:
        """Topics so far."""
        return len(self._topics)

    def note(self, values: Mapping[str, str]) -> None:
        """Add notes on the run, or change them; the next flush writes them."""
        if any(self._custom_data.get(name) != value for name, value in values.items()):
            self._custom_data |= values
            self._changed = True

    def add_topic(self, name: str, message_type: str, qos: TopicQos | None = None) -> None:
        """Add a topic of an installed ``package/msg/Type``; no-op if it is there already.

        Raises:
            TraceError: The type's definition cannot be found.
        """
        if name in self._topics:
            return
        definition = find_definition(message_type)
        profiles = [(qos or TopicQos()).profile()]
        metadata = {
            'offered_qos_profiles': dump(profiles),
            'topic_type_hash': definition.type_hash,
        }
        self._add(name, message_type, definition.text.encode(), 'ros2msg', metadata)

    def copy_topic(self, schema: Schema, channel: Channel) -> None:
        """Add a topic as another MCAP file has it; no-op if it is there already.

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
        self._add(channel.topic, schema.name, schema.data, schema.encoding, channel.metadata)

    def _add(
        self, name: str, message_type: str, text: bytes, encoding: str, metadata: Mapping[str, str]
    ) -> None:
        if message_type not in self._schemas:
            self._schemas[message_type] = self._file.add_schema(
                message_type, text, encoding=encoding
            )
        channel_id = self._file.add_channel(name, self._schemas[message_type].id, metadata)
        self._topics[name] = StoredTopic.make(channel_id, name, message_type, metadata)
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
            sequence: Its number by its publisher; 0 for none.
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
        self._end_file()
        ended = self._present
        self._file = self._begin(self._open(len(self._ended) + 1))
        self._ended.append(ended)
        self._write_metadata()

    def flush(self) -> None:
        """Make everything written so far survive a kill of this process."""
        self._file.flush()
        if self._changed and time.monotonic() - self._written_s >= METADATA_PERIOD_S:
            self._write_metadata()

    def give_up(self, why: str) -> None:
        """End here, since the trace cannot be written on; readers are told why as far as possible.

        What was not flushed counts no more.
        """
        self._closed = True
        self._file.give_up()
        with suppress(OSError):
            note_ending(self.folder, why)

    def close(self) -> None:
        """End the file and write the final metadata; idempotent."""
        if self._closed:
            return
        self._closed = True
        self._end_file()
        self._write_metadata()

    def _end_file(self) -> None:
        """End the present file; it says itself what the bag is so far, as rosbag2's do."""
        self._file.flush()
        if self._custom_data:
            self._file.add_metadata(CUSTOM_DATA, self._custom_data)
        self._file.add_metadata('rosbag2', {'serialized_metadata': self._information})
        self._file.finish()

    @property
    def _present(self) -> StoredFile:
        file = self._file
        name = self._file_name(len(self._ended))
        return StoredFile(name, file.start_ns, file.end_ns, dict(file.counts))

    @property
    def _files(self) -> list[StoredFile]:
        return [*self._ended, self._present]

    @property
    def _information(self) -> str:
        return bag_information(self._files, self._topics.values(), self._custom_data)

    def _write_metadata(self) -> None:
        write_metadata(self.folder, self._information)
        self._changed, self._written_s = False, time.monotonic()
