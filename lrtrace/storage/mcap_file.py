"""Writes MCAP files (https://mcap.dev/spec) chunk by chunk.

The ``mcap`` package writes a chunk when it is full. Here the caller can also say when, so that a
recorder that is killed loses only the messages since the last :meth:`McapFile.flush`.
"""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

import zstandard
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import (
    Channel,
    ChunkIndex,
    DataEnd,
    Footer,
    Header,
    McapRecord,
    MessageIndex,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
    SummaryOffset,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import FileIO

MAGIC = b'\x89MCAP0\r\n'
"""First and last bytes of a whole file."""

CHUNK_BYTES = 256 * 1024
"""Uncompressed size from which on a chunk is written without a call of ``flush``."""

_MESSAGE = struct.Struct('<BQHIQQ')
_CHUNK = struct.Struct('<BQQQQI')
_FOOTER_HEAD = struct.Struct('<BQQQ')


class McapFile:
    """Writes messages into zstd chunks of a stream. For one thread at a time.

    ``library`` is what the file names as its writer. :meth:`finish` closes the stream.
    """

    def __init__(self, stream: BinaryIO | FileIO, *, library: str) -> None:
        self._stream = stream
        self._offset = 0
        self._compressor = zstandard.ZstdCompressor(level=1)
        self._schemas: list[Schema] = []
        self._channels: list[Channel] = []
        # Encoded, since hours of chunks of hundreds of topics would fill the memory with objects.
        self._chunk_indexes: list[bytes] = []
        self._metadata_indexes: list[MetadataIndex] = []
        self._chunk = bytearray()
        self._chunk_messages: dict[int, list[tuple[int, int]]] = {}
        self.counts: dict[int, int] = {}
        """Messages so far by channel id."""
        self.message_count = 0
        self.start_ns = 0
        """Earliest log time so far; 0 without messages."""
        self.end_ns = 0
        self._write(MAGIC)
        self._write(_encoded(Header(profile='ros2', library=library)))
        stream.flush()

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._offset

    def add_schema(self, name: str, data: bytes, *, encoding: str = 'ros2msg') -> Schema:
        """Add a message definition in ``ros2msg`` or ``ros2idl``."""
        schema = Schema(id=len(self._schemas) + 1, name=name, encoding=encoding, data=data)
        self._schemas.append(schema)
        self._chunk += _encoded(schema)
        return schema

    def add_channel(self, topic: str, schema_id: int, metadata: Mapping[str, str]) -> int:
        """Add a topic; return its id."""
        channel = Channel(
            id=len(self._channels) + 1,
            topic=topic,
            message_encoding='cdr',
            metadata=dict(metadata),
            schema_id=schema_id,
        )
        self._channels.append(channel)
        self._chunk += _encoded(channel)
        self.counts[channel.id] = 0
        return int(channel.id)

    def add_message(
        self, channel_id: int, data: bytes, *, log_ns: int, publish_ns: int, sequence: int = 0
    ) -> None:
        """Add a serialised message, and write the chunk if that is full now."""
        self._chunk_messages.setdefault(channel_id, []).append((log_ns, len(self._chunk)))
        self._chunk += _MESSAGE.pack(
            Opcode.MESSAGE, 22 + len(data), channel_id, sequence, log_ns, publish_ns
        )
        self._chunk += data
        self.start_ns = min(self.start_ns, log_ns) if self.message_count else log_ns
        self.end_ns = max(self.end_ns, log_ns)
        self.counts[channel_id] += 1
        self.message_count += 1
        if len(self._chunk) >= CHUNK_BYTES:
            self.flush()

    def add_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """Write a metadata record."""
        record = _encoded(Metadata(name=name, metadata=dict(values)))
        self._metadata_indexes.append(
            MetadataIndex(offset=self._offset, length=len(record), name=name)
        )
        self._write(record)
        self._stream.flush()

    def flush(self) -> None:
        """Write what is pending as a chunk; a kill of this process does not lose it any more."""
        if not self._chunk:
            return
        times = [time for entries in self._chunk_messages.values() for time, _ in entries]
        first, last = (min(times), max(times)) if times else (0, 0)
        data = self._compressor.compress(self._chunk)
        kind = b'zstd'
        start = self._offset
        head = _CHUNK.pack(
            Opcode.CHUNK, 8 * 4 + 4 + 4 + len(kind) + len(data),
            first, last, len(self._chunk), zlib.crc32(self._chunk),
        )  # fmt: skip
        block = bytearray(head + struct.pack('<I', len(kind)) + kind)
        block += struct.pack('<Q', len(data)) + data
        length = len(block)
        offsets = {}
        for channel_id, entries in self._chunk_messages.items():
            offsets[channel_id] = start + len(block)
            block += _encoded(MessageIndex(channel_id=channel_id, records=entries))
        self._write(block)
        self._stream.flush()
        index = ChunkIndex(
            chunk_length=length,
            chunk_start_offset=start,
            compression='zstd',
            compressed_size=len(data),
            message_end_time=last,
            message_index_length=self._offset - start - length,
            message_index_offsets=offsets,
            message_start_time=first,
            uncompressed_size=len(self._chunk),
        )
        self._chunk_indexes.append(_encoded(index))
        self._chunk = bytearray()
        self._chunk_messages = {}

    def give_up(self) -> None:
        """Forget what is pending, which could not be written: the counts are those of the file."""
        for channel_id, entries in self._chunk_messages.items():
            self.counts[channel_id] -= len(entries)
            self.message_count -= len(entries)
        self._chunk, self._chunk_messages = bytearray(), {}

    def finish(self) -> None:
        """Write the pending chunk, the summary and the footer, and close the stream."""
        self.flush()
        self._write(_encoded(DataEnd(data_section_crc=0)))
        summary_start = self._offset
        groups: list[tuple[Opcode, list[bytes]]] = [
            (Opcode.SCHEMA, [*map(_encoded, self._schemas)]),
            (Opcode.CHANNEL, [*map(_encoded, self._channels)]),
            (Opcode.STATISTICS, [_encoded(self._statistics())]),
            (Opcode.CHUNK_INDEX, self._chunk_indexes),
            (Opcode.METADATA_INDEX, [*map(_encoded, self._metadata_indexes)]),
        ]
        summary = bytearray()
        offsets = bytearray()
        for opcode, records in groups:
            group_start = len(summary)
            for record in records:
                summary += record
            if records:
                offsets += _encoded(
                    SummaryOffset(
                        group_opcode=opcode,
                        group_start=summary_start + group_start,
                        group_length=len(summary) - group_start,
                    )
                )
        offsets_start = summary_start + len(summary)
        summary += offsets
        crc = zlib.crc32(
            _FOOTER_HEAD.pack(Opcode.FOOTER, 8 + 8 + 4, summary_start, offsets_start),
            zlib.crc32(summary),
        )
        footer = Footer(
            summary_start=summary_start, summary_offset_start=offsets_start, summary_crc=crc
        )
        self._write(bytes(summary) + _encoded(footer) + MAGIC)
        self._stream.flush()
        self._stream.close()

    def _statistics(self) -> Statistics:
        return Statistics(
            attachment_count=0,
            channel_count=len(self._channels),
            channel_message_counts=dict(self.counts),
            chunk_count=len(self._chunk_indexes),
            message_count=self.message_count,
            message_end_time=self.end_ns,
            message_start_time=self.start_ns,
            metadata_count=len(self._metadata_indexes),
            schema_count=len(self._schemas),
        )

    def _write(self, data: bytes | bytearray) -> None:
        left = memoryview(data)
        try:
            # A stream without a buffer writes what finds room, and fails at the next call.
            while left:
                left = left[self._stream.write(left) :]
        except OSError:
            # A part of a record would be read as the end that a kill leaves.
            with suppress(OSError):
                self._stream.truncate(self._offset)
            raise
        self._offset += len(data)


def _encoded(record: McapRecord) -> bytes:
    builder = RecordBuilder()
    record.write(builder)
    return bytes(builder.end())
