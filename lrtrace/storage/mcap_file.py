"""An MCAP file that is whole after every chunk.

The ``mcap`` package writes a chunk when it is full; here the caller says when, so that a recorder
that is killed loses at most the messages since the last :meth:`McapFile.flush`.
Format: https://mcap.dev/spec
"""

from __future__ import annotations

import struct
import zlib
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

MAGIC = b'\x89MCAP0\r\n'
"""First and last bytes of a whole file."""

CHUNK_BYTES = 256 * 1024
"""Uncompressed size at which a chunk is written by itself."""

_MESSAGE = struct.Struct('<BQHIQQ')
_CHUNK = struct.Struct('<BQQQQI')
_FOOTER_HEAD = struct.Struct('<BQQQ')


class McapFile:
    """Writes messages into zstd chunks. Not safe for several threads at once.

    Args:
        stream: Where to write; must be at its start. Closed by :meth:`finish`.
        library: What the file says it was written by.
    """

    def __init__(self, stream: BinaryIO, *, library: str) -> None:
        self._stream = stream
        self._offset = 0
        self._compressor = zstandard.ZstdCompressor(level=1)
        self._schemas: list[Schema] = []
        self._channels: list[Channel] = []
        # As bytes: hours of chunks of hundreds of topics must not fill the memory with objects.
        self._chunk_indexes: list[bytes] = []
        self._metadata_indexes: list[MetadataIndex] = []
        self._chunk = bytearray()
        self._chunk_messages: dict[int, list[tuple[int, int]]] = {}
        self.counts: dict[int, int] = {}
        """Messages so far by channel id."""
        self._message_count = 0
        self.start_ns = 0
        """Earliest log time so far; 0 without messages."""
        self.end_ns = 0
        """Latest log time so far."""
        self._write(MAGIC)
        self._write(_encoded(Header(profile='ros2', library=library)))
        stream.flush()

    @property
    def message_count(self) -> int:
        """Messages so far."""
        return self._message_count

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._offset

    def add_schema(self, name: str, text: str | bytes, *, encoding: str = 'ros2msg') -> int:
        """Add a message definition, ``ros2msg`` or ``ros2idl``; return its id."""
        data = text.encode() if isinstance(text, str) else text
        schema = Schema(id=len(self._schemas) + 1, name=name, encoding=encoding, data=data)
        self._schemas.append(schema)
        self._chunk += _encoded(schema)
        return int(schema.id)

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
        """Add a serialised message; a full chunk is written."""
        self._chunk_messages.setdefault(channel_id, []).append((log_ns, len(self._chunk)))
        self._chunk += _MESSAGE.pack(
            Opcode.MESSAGE, 22 + len(data), channel_id, sequence, log_ns, publish_ns
        )
        self._chunk += data
        self.start_ns = min(self.start_ns, log_ns) if self._message_count else log_ns
        self.end_ns = max(self.end_ns, log_ns)
        self.counts[channel_id] += 1
        self._message_count += 1
        if len(self._chunk) >= CHUNK_BYTES:
            self.flush()

    def add_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """Add a record of names and values."""
        record = _encoded(Metadata(name=name, metadata=dict(values)))
        self._metadata_indexes.append(
            MetadataIndex(offset=self._offset, length=len(record), name=name)
        )
        self._write(record)
        self._stream.flush()

    def flush(self) -> None:
        """Write what is pending as a chunk and hand it to the system: no kill loses it now."""
        if not self._chunk:
            return
        times = [time for entries in self._chunk_messages.values() for time, _ in entries]
        first, last = (min(times), max(times)) if times else (0, 0)
        data = self._compressor.compress(bytes(self._chunk))
        kind = b'zstd'
        start = self._offset
        head = _CHUNK.pack(
            Opcode.CHUNK, 8 * 4 + 4 + 4 + len(kind) + len(data),
            first, last, len(self._chunk), zlib.crc32(self._chunk),
        )  # fmt: skip
        self._write(
            head + struct.pack('<I', len(kind)) + kind + struct.pack('<Q', len(data)) + data
        )
        length = self._offset - start
        offsets = {}
        for channel_id, entries in self._chunk_messages.items():
            offsets[channel_id] = self._offset
            self._write(_encoded(MessageIndex(channel_id=channel_id, records=entries)))
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
        self._stream.flush()

    def finish(self) -> None:
        """Write the pending chunk, the index and the footer, and close the stream."""
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

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._offset += len(data)


def _encoded(record: McapRecord) -> bytes:
    builder = RecordBuilder()
    record.write(builder)
    return bytes(builder.end())
