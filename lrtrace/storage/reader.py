"""Reads traces, also those whose recorder was killed."""

from __future__ import annotations

import re
import struct
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import zstandard
from mcap.exceptions import EndOfFile, McapError
from mcap.records import Channel, Chunk, Message, Metadata, Schema
from mcap.stream_reader import StreamReader, breakup_chunk
from mcap_ros2.decoder import DecoderFactory

from lrtrace.storage.metadata import CUSTOM_DATA
from lrtrace.storage.trace_files import find_files
from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from mcap.records import McapRecord

MAX_RECORD_BYTES = 1 << 28
"""A larger record cannot be sound and is not loaded."""

_DAMAGE = (
    McapError, ValueError, KeyError, OverflowError, MemoryError, struct.error, zlib.error,
    zstandard.ZstdError,
)  # fmt: skip
"""What the format's own reader raises for bytes that are not sound."""


_OF_ACTION = re.compile(r'\baction/([A-Z][A-Za-z0-9]*)_(FeedbackMessage|Feedback)\b')


@dataclass(frozen=True, slots=True)
class TraceMessage:
    """One message of a topic, given by its full name."""

    topic: str
    message_type: str
    log_ns: int
    """When it was recorded (ns since the epoch)."""

    data: bytes
    value: Any
    """The decoded message, with its definition's field names."""


@dataclass(slots=True)
class TraceSummary:
    """What a trace holds, from its earliest to its latest log time."""

    counts: Counter[str] = field(default_factory=Counter)
    """Messages by topic; topics without messages count 0."""

    types: dict[str, str] = field(default_factory=dict)
    """Message types by topic."""

    start_ns: int = 0
    end_ns: int = 0
    size_bytes: int = 0
    """Of its files."""

    damage: str = ''
    """What was wrong with the files; empty for a whole trace."""

    @property
    def duration_s(self) -> float:
        """Time between the first and the last message (s)."""
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(slots=True)
class _Topics:
    """What a file said of its topics so far."""

    schemas: dict[int, Schema] = field(default_factory=dict)
    channels: dict[int, Channel] = field(default_factory=dict)
    decoders: DecoderFactory = field(default_factory=DecoderFactory)
    told: int = 0

    def name(self, message: Message) -> str:
        return str(self.channels[message.channel_id].topic)

    def schema(self, message: Message) -> Schema:
        return self.schemas[self.channels[message.channel_id].schema_id]


class _BoundedStream:
    """A file that is never asked for more than it has, whatever a damaged length claims."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._left = stream, size

    def read(self, length: int) -> bytes:
        data = self._stream.read(min(length, self._left))
        self._left -= len(data)
        return data


class Trace:
    """A trace on disk: a rosbag2 folder or an MCAP file.

    It needs neither footers nor a ``metadata.yaml``: what a killed recorder left is read up to its
    last whole chunk, and :attr:`damage` says so. Unsound chunks are left out.

    Raises:
        TraceError: There is no trace, or it is not made of MCAP files.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.damage = ''
        """What the latest reading found wrong with the files; empty if nothing."""
        self.cut_off = False
        """Whether the latest reading found a file that was never closed."""
        found = find_files(self.path)
        self.files = found.paths
        self._empty = found.empty
        self.custom_data = dict(found.custom_data) or self._recorded_custom_data()

    def messages(
        self, types: Collection[str] | None = None, *, topics: Collection[str] | None = None
    ) -> Iterator[TraceMessage]:
        """Yield decoded messages of some types and topics, or of all, in the order of recording.

        Raises:
            TraceError: A file cannot be read at all, or a message does not fit its definition.
        """
        for file, seen, message in self._raw_messages():
            schema, name = seen.schema(message), seen.name(message)
            if types is not None and schema.name not in types:
                continue
            if topics is not None and name not in topics:
                continue
            yield TraceMessage(
                topic=name,
                message_type=schema.name,
                log_ns=message.log_time,
                data=message.data,
                value=_decoded(file, seen, message),
            )

    def raw(self) -> Iterator[tuple[Schema, Channel, Message]]:
        """Yield undecoded messages, each with its definition and its topic.

        Raises:
            TraceError: A file cannot be read at all.
        """
        for _, topics, message in self._raw_messages():
            yield topics.schema(message), topics.channels[message.channel_id], message

    def topics(self) -> list[tuple[Schema, Channel]]:
        """Return every topic of the files once, with its definition.

        Raises:
            TraceError: A file cannot be read at all.
        """
        found: dict[str, tuple[Schema, Channel]] = {}
        for _, topics, _ in self._raw_messages():
            # Channels come before their messages, so a file's table grows as it is read.
            if len(topics.channels) == topics.told:
                continue
            topics.told = len(topics.channels)
            for channel in topics.channels.values():
                if channel.schema_id in topics.schemas:
                    found.setdefault(channel.topic, (topics.schemas[channel.schema_id], channel))
        return [*found.values()]

    def summary(self) -> TraceSummary:
        """Count the messages without decoding them.

        Raises:
            TraceError: A file cannot be read at all.
        """
        found = TraceSummary(size_bytes=sum(file.stat().st_size for file in self.files))
        topics_seen: list[_Topics] = []
        for _, topics, message in self._raw_messages():
            if not topics_seen or topics_seen[-1] is not topics:
                topics_seen.append(topics)
            if not found.counts.total():
                found.start_ns = message.log_time
            found.counts[topics.name(message)] += 1
            found.start_ns = min(found.start_ns, message.log_time)
            found.end_ns = max(found.end_ns, message.log_time)
        for topics in topics_seen:
            for channel in topics.channels.values():
                found.counts.setdefault(channel.topic, 0)
                schema = topics.schemas.get(channel.schema_id)
                found.types[channel.topic] = schema.name if schema else ''
        found.damage = self.damage
        return found

    def _raw_messages(self) -> Iterator[tuple[Path, _Topics, Message]]:
        self.damage, self.cut_off = '', bool(self._empty)
        if self._empty:
            self._note(f'{self._empty}: empty, its recorder was killed')
        for file in self.files:
            topics = _Topics()
            for record in self._records(file):
                if isinstance(record, Schema):
                    topics.schemas[record.id] = record
                elif isinstance(record, Channel):
                    topics.channels[record.id] = record
                elif isinstance(record, Message) and self._known(file, topics, record):
                    yield file, topics, record

    def _known(self, file: Path, topics: _Topics, message: Message) -> bool:
        channel = topics.channels.get(message.channel_id)
        if channel is not None and channel.schema_id in topics.schemas:
            return True
        self._note(f'{file.name}: a message of channel {message.channel_id}, which has no type')
        return False

    def _records(self, file: Path, *, chunks: bool = True) -> Iterator[McapRecord]:
        """Yield a file's records in order, with those in its chunks if asked."""
        try:
            with file.open('rb') as stream:
                bounded = _BoundedStream(stream, file.stat().st_size)
                records = StreamReader(
                    bounded, emit_chunks=True, record_size_limit=MAX_RECORD_BYTES
                ).records
                try:
                    for record in records:
                        if isinstance(record, Chunk):
                            if chunks:
                                yield from self._opened(file, record)
                        else:
                            yield record
                except EndOfFile:
                    self.cut_off = True
                    self._note(f'{file.name}: ends without a footer, its recorder was killed')
                except _DAMAGE as err:
                    self._note(f'{file.name}: not sound: {err!r}')
        except OSError as err:
            raise TraceError(f'{file}: cannot be read: {err.strerror}') from err

    def _opened(self, file: Path, chunk: Chunk) -> list[McapRecord]:
        try:
            if chunk.uncompressed_size > MAX_RECORD_BYTES:
                raise ValueError(f'a chunk of {chunk.uncompressed_size} bytes')
            return list(breakup_chunk(chunk, validate_crc=True))
        except _DAMAGE as err:
            self._note(f'{file.name}: a chunk is left out: {err}')
            return []

    def _note(self, damage: str) -> None:
        if damage not in self.damage:
            self.damage = f'{self.damage}; {damage}' if self.damage else damage

    def _recorded_custom_data(self) -> dict[str, str]:
        """Return the notes in the files themselves; later records win."""
        found: dict[str, str] = {}
        for file in self.files:
            for record in self._records(file, chunks=False):
                if isinstance(record, Metadata) and record.name == CUSTOM_DATA:
                    found |= record.metadata
        return found


def _decoded(file: Path, topics: _Topics, message: Message) -> Any:
    schema = topics.schema(message)
    try:
        if '/action/' in schema.name:
            schema = _without_underscores(schema)
        # None for a definition in another language than ros2msg.
        decode = topics.decoders.decoder_for('cdr', schema)
        return decode(message.data)
    except Exception as err:
        # The decoder is generated from the definition, so anything can be wrong with it.
        raise TraceError(f'{file}: a {schema.name} that does not fit its definition') from err


def _without_underscores(schema: Schema) -> Schema:
    """Return an action's message under names without underscores, which the decoder refuses."""
    return Schema(
        id=schema.id,
        name=_OF_ACTION.sub(r'msg/\1\2', schema.name),
        encoding=schema.encoding,
        data=_OF_ACTION.sub(r'\1\2', schema.data.decode()).encode(),
    )
