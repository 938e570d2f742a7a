"""Reads the records of MCAP files one by one, in memory that no size claimed in them decides."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, cast

import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Message, Metadata, Schema

from lrtrace.storage.mcap_file import MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    Record: TypeAlias = Schema | Channel | Message | Metadata

MAX_CHUNK_BYTES = 1 << 25
"""A chunk that holds more bytes is left out."""

MAX_PACKED_BYTES = MAX_CHUNK_BYTES + (1 << 20)
"""The same for what a file has in one record: some data become longer by compression."""

MAX_NOTE_BYTES = 1 << 20
"""A longer definition or topic is left out, and longer metadata."""

_HEAD = struct.Struct('<BQ')
_MESSAGE = struct.Struct('<HIQQ')
_CHUNK = struct.Struct('<QQQII')
_LENGTH = struct.Struct('<Q')
_NOTES: dict[int, type[Schema | Channel | Metadata]] = {
    Opcode.SCHEMA: Schema, Opcode.CHANNEL: Channel, Opcode.METADATA: Metadata,
}  # fmt: skip

# What zstd, lz4 and the format's own readers raise for bytes that are not sound.
_UNSOUND = (McapError, ValueError, RuntimeError, struct.error, zstandard.ZstdError)


def records(
    stream: BinaryIO, size: int, wanted: Collection[int], left_out: Callable[[str], None]
) -> Iterator[Record]:
    """Yield the records of some opcodes of a file of ``size`` bytes, and of those its chunks hold.

    Chunks are looked into if they are wanted. ``left_out`` is told why a record or a chunk is not
    sound; what is sound behind it is yielded.

    Raises:
        EOFError: The file ends before its footer.
        OSError: It cannot be read.
    """
    stream.seek(len(MAGIC))
    while True:
        head = stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            raise EOFError
        opcode, length = _HEAD.unpack(head)
        end = stream.tell() + length
        if end > size:
            raise EOFError
        if opcode in wanted:
            try:
                _require(length, MAX_NOTE_BYTES if opcode in _NOTES else MAX_PACKED_BYTES)
                content = memoryview(stream.read(length))
                if opcode == Opcode.CHUNK:
                    yield from _held(_opened(content), wanted, left_out)
                else:
                    yield _record(opcode, content)
            except _UNSOUND as err:
                what = 'a chunk' if opcode == Opcode.CHUNK else 'a record'
                left_out(f'{what} is left out: {str(err) or "it ends early"}')
        stream.seek(end)
        if opcode == Opcode.FOOTER:
            if stream.read(len(MAGIC)) != MAGIC:
                raise EOFError
            return


def _held(
    data: memoryview, wanted: Collection[int], left_out: Callable[[str], None]
) -> Iterator[Record]:
    """Yield the records of a chunk's data, up to the first that does not end in it."""
    place = 0
    while place < len(data):
        opcode, length = _HEAD.unpack_from(data, place)
        place += _HEAD.size
        _require(length, len(data) - place)
        if opcode in wanted and opcode != Opcode.CHUNK:
            try:
                if opcode in _NOTES:
                    _require(length, MAX_NOTE_BYTES)
                yield _record(opcode, data[place : place + length])
            except _UNSOUND as err:
                left_out(f'a record is left out: {str(err) or "it ends early"}')
        place += length


def _record(opcode: int, content: memoryview) -> Record:
    kind = _NOTES.get(opcode)
    if kind is not None:
        return cast('Record', kind.read(ReadDataStream(BytesIO(content))))
    channel_id, sequence, log_ns, publish_ns = _MESSAGE.unpack_from(content)
    return Message(
        channel_id=channel_id,
        sequence=sequence,
        log_time=log_ns,
        publish_time=publish_ns,
        data=bytes(content[_MESSAGE.size :]),
    )


def _opened(chunk: memoryview) -> memoryview:
    """Return what a chunk holds, which is as long as it claims."""
    _, _, size, crc, name_length = _CHUNK.unpack_from(chunk)
    _require(size, MAX_CHUNK_BYTES)
    place = _CHUNK.size + name_length
    compression = bytes(chunk[_CHUNK.size : place][:16])
    (length,) = _LENGTH.unpack_from(chunk, place)
    packed = chunk[place + _LENGTH.size :][:length]
    data: bytes | memoryview
    if compression == b'zstd':
        data = _of_zstd(packed, size)
    elif compression == b'lz4':
        data = _of_lz4(packed, size)
    elif not compression:
        data = packed
    else:
        raise ValueError(f'compression {compression!r}: expected zstd, lz4 or none')
    if len(data) != size:
        more = ' or more' if len(data) > size else ''
        raise ValueError(f'{len(data)} bytes{more} uncompressed: expected {size}, as it says')
    if crc and zlib.crc32(data) != crc:
        raise ValueError(f'its checksum is {zlib.crc32(data):#x}: expected {crc:#x}')
    return memoryview(data)


def _of_zstd(packed: memoryview, size: int) -> bytes:
    # The frame has a claim of its own, which alone counts where there is one.
    claimed = zstandard.frame_content_size(packed)
    if claimed not in (-1, size):
        raise ValueError(f'{claimed} bytes uncompressed: expected {size}, as it says')
    opener = zstandard.ZstdDecompressor(max_window_size=MAX_CHUNK_BYTES)
    with opener.stream_reader(packed) as stream:
        return stream.read(size + 1)


def _of_lz4(packed: memoryview, size: int) -> bytes:
    from lz4.frame import LZ4FrameDecompressor

    found: bytes = LZ4FrameDecompressor().decompress(packed, max_length=size + 1)
    return found


def _require(length: int, most: int) -> None:
    if length > most:
        raise ValueError(f'{length} bytes: expected at most {most}')
