"""Changes a whole MCAP file in the ways in which disks, editors and attackers do."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import zstandard
from mcap.opcode import Opcode

from lrtrace.storage.mcap_file import MAGIC

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

HEAD = struct.Struct('<BQ')
CHUNK = struct.Struct('<QQQII')

ODD_NUMBERS = (0, 1, 0x7F, 0xFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
"""Values that lengths, counts and times are set to."""

Records = list[tuple[int, bytes]]


def split(data: bytes) -> Records:
    """Return the records that bytes are made of, as opcode and content."""
    found, place = [], 0
    while place + HEAD.size <= len(data):
        opcode, length = HEAD.unpack_from(data, place)
        place += HEAD.size
        found.append((opcode, data[place : place + length]))
        place += length
    return found


def joined(records: Records) -> bytes:
    return b''.join(HEAD.pack(opcode, len(content)) + content for opcode, content in records)


def opened(content: bytes) -> bytes:
    """Return what a chunk holds."""
    place = CHUNK.size + len(b'zstd') + 8
    return zstandard.decompress(content[place:])


def closed(data: bytes, rng: random.Random) -> bytes:
    """Return a chunk that holds data, with its true size and checksum, or rarely others."""
    size = rng.choice(ODD_NUMBERS) if rng.random() < 0.05 else len(data)
    crc = rng.choice((zlib.crc32(data), 0))
    kind, packed = rng.choice(((b'zstd', zstandard.compress(data)), (b'', data)))
    head = CHUNK.pack(0, 0, size, crc, len(kind)) + kind
    return head + struct.pack('<Q', len(packed)) + packed


def flipped(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with some bits the other way round."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwritten(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with a number in them that claims too little or too much."""
    layout = rng.choice(('<H', '<I', '<Q'))
    value = rng.choice(ODD_NUMBERS) & (256 ** struct.calcsize(layout) - 1)
    if len(data) < struct.calcsize(layout):
        return data
    changed = bytearray(data)
    struct.pack_into(layout, changed, rng.randrange(len(data) - struct.calcsize(layout) + 1), value)
    return bytes(changed)


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def spliced(data: bytes, rng: random.Random) -> bytes:
    """Return bytes of which a part stands in another place."""
    start, end, place = sorted(rng.randrange(len(data) + 1) for _ in range(3))
    return data[:place] + data[start:end] + data[place:]


BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (flipped, overwritten, cut, spliced)


def rearranged(records: Records, rng: random.Random) -> Records:
    """Return records of which one was changed, taken out, doubled, moved or given an opcode."""
    changed = list(records)
    place = rng.randrange(len(changed))
    opcode, content = changed[place]
    match rng.randrange(6):
        case 0:
            del changed[place]
        case 1:
            changed[place:place] = [changed[place]] * rng.randint(1, 30)
        case 2:
            changed.insert(rng.randrange(len(changed)), changed.pop(place))
        case 3:
            changed[place] = rng.randrange(18), content
        case _:
            changed[place] = opcode, rng.choice(BYTES)(content, rng)
    return changed


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return a file with one to four changes: to its bytes, its records, or those in its chunks."""
    if rng.random() < 0.25:
        for _ in range(rng.randint(1, 4)):
            data = rng.choice(BYTES)(data, rng)
        return MAGIC + data[len(MAGIC) :]
    records = split(data[len(MAGIC) : -len(MAGIC)])
    for _ in range(rng.randint(1, 4)):
        chunks = [n for n, (opcode, _) in enumerate(records) if opcode == Opcode.CHUNK]
        if chunks and rng.random() < 0.7:
            place = rng.choice(chunks)
            try:
                inside = split(opened(records[place][1]))
            except (struct.error, zstandard.ZstdError):
                # It was changed already.
                continue
            if inside:
                inside = rearranged(inside, rng)
            held = joined(inside)
            if rng.random() < 0.1:
                held = rng.choice(BYTES)(held, rng)
            records[place] = Opcode.CHUNK, closed(held, rng)
        elif records:
            records = rearranged(records, rng)
    return MAGIC + joined(records) + MAGIC
