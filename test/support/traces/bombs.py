"""Small MCAP files that claim, or unfold to, far more than they are."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import lz4.frame
import zstandard
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import (
    Attachment,
    Channel,
    DataEnd,
    Footer,
    Header,
    McapRecord,
    MessageIndex,
    Metadata,
    Schema,
)
from rclpy.serialization import serialize_message
from timely_llm_ros.msg import SceneObject, SchedulerState, SkillSegment, TaskEvent
from unique_identifier_msgs.msg import UUID

from lrtrace.storage.definitions import find_definition
from lrtrace.storage.mcap_file import MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MOST_BYTES = 10_000_000
"""Of a bomb's file."""

CHUNK = 1 << 25
"""The longest chunk that is read (bytes)."""

MEBIBYTE = 1 << 20
SOME = 12 * MEBIBYTE
"""More messages of a fleet than are kept, once they are decoded."""

EVENT = 'timely_llm_ros/msg/TaskEvent'


def encoded(*records: McapRecord) -> bytes:
    builder = RecordBuilder()
    for record in records:
        record.write(builder)
    return bytes(builder.end())


def framed(opcode: int, content: bytes) -> bytes:
    return struct.pack('<BQ', opcode, len(content)) + content


def message(channel: int, data: bytes, number: int = 0) -> bytes:
    return framed(Opcode.MESSAGE, struct.pack('<HIQQ', channel, number, 10**18 + number, 0) + data)


def chunk(compression: str, packed: bytes, claimed: int) -> bytes:
    kind = compression.encode()
    head = struct.pack('<QQQII', 0, 0, claimed, 0, len(kind)) + kind
    return framed(Opcode.CHUNK, head + struct.pack('<Q', len(packed)) + packed)


def zstd(data: bytes) -> bytes:
    return chunk('zstd', zstandard.ZstdCompressor(level=3).compress(data), len(data))


def file(*parts: bytes) -> bytes:
    end = encoded(DataEnd(data_section_crc=0), Footer(0, 0, 0))
    return MAGIC + encoded(Header(profile='ros2', library='')) + b''.join(parts) + end + MAGIC


def topic(name: str, text: str, *, number: int = 1, qos: str = '') -> bytes:
    """Return a topic's definition and channel, both of that number."""
    metadata = {'offered_qos_profiles': qos} if qos else {}
    return encoded(
        Schema(id=number, data=text.encode(), encoding='ros2msg', name=name),
        Channel(
            id=number, topic=f'/t{number}', message_encoding='cdr', metadata=metadata,
            schema_id=number,
        ),
    )  # fmt: skip


def cdr(data: bytes) -> bytes:
    return b'\0\1\0\0' + data


def sound() -> bytes:
    """Return a chunk of one whole message, which everything must still be found beside."""
    return zstd(topic('a/msg/Sound', 'uint8 x', number=99) + message(99, cdr(b'\7')))


def filled(records: Iterable[bytes], size: int = CHUNK - 20_000) -> bytes:
    """Return as many of the records as fit into a chunk, beside a definition."""
    found = bytearray()
    for record in records:
        if len(found) + len(record) > size:
            break
        found += record
    return bytes(found)


def fleet(name: str) -> bytes:
    return topic(name, find_definition(name).text)


def _zeros(size: int) -> Iterator[bytes]:
    for _ in range(size // MEBIBYTE):
        yield bytes(MEBIBYTE)


def zstd_frame_beyond_its_claim() -> bytes:
    packer = zstandard.ZstdCompressor().compressobj(size=512 * MEBIBYTE)
    packed = b''.join(map(packer.compress, _zeros(512 * MEBIBYTE))) + packer.flush()
    return file(chunk('zstd', packed, 1000), sound())


def zstd_frame_without_a_size() -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    packed = b''.join(map(packer.compress, _zeros(512 * MEBIBYTE))) + packer.flush()
    return file(*(chunk('zstd', packed, claimed) for claimed in (1000, CHUNK, 1 << 40)), sound())


def lz4_frame_beyond_its_claim() -> bytes:
    parts = []
    for claimed in (1000, CHUNK):
        packer = lz4.frame.LZ4FrameCompressor()
        packed = packer.begin()
        packed += b''.join(map(packer.compress, _zeros(512 * MEBIBYTE))) + packer.flush()
        parts.append(chunk('lz4', packed, claimed))
    return file(*parts, sound())


def chunks_within_the_limit() -> bytes:
    one = topic('a/msg/Bytes', 'uint8[] x') + message(1, bytes(CHUNK - 300))
    return file(*[zstd(one)] * 8, sound())


def tiny_records() -> bytes:
    half = topic('a/msg/Bytes', 'uint8[] x') + filled(
        iter(lambda: message(1, b''), None), CHUNK // 2
    )
    return file(zstd(half + bytes((0x80, *[0] * 8)) * 100_000), sound())


def long_message_index() -> bytes:
    entries = [(number, number) for number in range(MOST_BYTES // 16 - 1000)]
    return file(sound(), encoded(MessageIndex(channel_id=99, records=entries)))


def many_topics() -> bytes:
    def records() -> Iterator[bytes]:
        for number in range(1, 65535):
            yield topic(f'a/msg/T{number}', f'# {"x" * 300}\nuint8 x', number=number)
            yield message(number, cdr(b'\7'))

    return file(zstd(filled(records())), sound())


def topics_with_long_metadata() -> bytes:
    def records() -> Iterator[bytes]:
        for number in range(1, 65535):
            profiles = f'[{",".join(f"{{depth: {depth}}}" for depth in range(3000))}]'
            yield topic(f'a/msg/T{number}', 'uint8 x', number=number, qos=profiles)
            yield message(number, cdr(b'\7'))

    laughs = '\n'.join(
        f'{chr(98 + n)}: &{chr(98 + n)} [{",".join(f"*{chr(97 + n)}" for _ in range(9))}]'
        for n in range(9)
    )
    laughing = topic('a/msg/L', 'uint8 x', number=98, qos=f'a: &a [x]\n{laughs}')
    return file(zstd(laughing + message(98, cdr(b'\7')) + filled(records(), CHUNK // 2)), sound())


def many_notes() -> bytes:
    notes = (
        encoded(Metadata('timely_llm_ros', {f'{n}_{m}': '' for m in range(50)}))
        for n in range(MOST_BYTES)
    )
    attached = encoded(Attachment(0, 0, 'a', '', b''))
    return file(sound(), filled(notes, 8 * 10**6), filled(iter(lambda: attached, None), 10**6))


def long_definitions() -> bytes:
    def records() -> Iterator[bytes]:
        for number in range(1, 30):
            text = '\n'.join(f'bool x{field}' for field in range(60_000))
            yield topic(f'a/msg/T{number}', text, number=number)
            yield message(number, cdr(bytes(60_000)))

    return file(zstd(filled(records())), sound())


def long_text() -> bytes:
    text = b'a' * (CHUNK - 400) + '\N{GRINNING FACE}'.encode() + b'\0'
    data = cdr(struct.pack('<I', len(text)) + text)
    return file(zstd(topic('std_msgs/msg/String', 'string data') + message(1, data)), sound())


def _exploding(text: str, data: bytes) -> bytes:
    one = topic(EVENT, text) + message(1, cdr(data)) * 3
    return file(zstd(one), sound())


def endless_sequence() -> bytes:
    return _exploding('a/E[] x\n===\nMSG: a/E\n', struct.pack('<I', 2**31) + bytes(CHUNK // 4))


def endless_fixed_array() -> bytes:
    return _exploding('a/E[1000000000] x\n===\nMSG: a/E\nuint8[1] y', b'')


def nested_arrays() -> bytes:
    parts = [f'===\nMSG: a/E{n}\na/E{n + 1}[1000] x' for n in range(20)]
    return _exploding(
        '\n'.join(['a/E0 x', *parts, '===\nMSG: a/E20\nuint8[] x']), bytes(CHUNK // 4)
    )


def plan(number: int) -> UUID:
    return UUID(uuid=list(number.to_bytes(16, 'little')))


def many_tasks(scene: int = 0) -> bytes:
    """Return tasks, each with a text of its own, as real as they come."""
    event = TaskEvent(event=TaskEvent.ACCEPTED, robot='robot_1234567', task_kind='x' * 7)
    event.scene = [SceneObject(name=f'cup_{n}', kind='cup') for n in range(scene)]
    data = bytearray(serialize_message(event))
    robot = data.index(b'1234567')
    kind = data.index(b'xxxxxxx')
    id_place = robot - 6 - 4 - 16 - (robot - 6) % 4

    def records() -> Iterator[bytes]:
        for number in range(10**6):
            data[robot : robot + 7] = data[kind : kind + 7] = b'%07d' % number
            data[id_place : id_place + 16] = number.to_bytes(16, 'little')
            yield message(1, bytes(data), number)

    return file(zstd(fleet(EVENT) + filled(records(), SOME)), sound())


def many_tasks_with_scenes() -> bytes:
    return many_tasks(scene=40)


def long_instructions() -> bytes:
    def records() -> Iterator[bytes]:
        for number in range(40):
            text = '\N{GRINNING FACE}' + '\1' * 800_000
            yield message(
                1,
                serialize_message(
                    TaskEvent(robot=f'r{number}1' * 9, instruction=text, plan_id=plan(number))
                ),
            )

    return file(zstd(fleet(EVENT) + filled(records())), sound())


def many_states() -> bytes:
    name = 'timely_llm_ros/msg/SchedulerState'
    one = TaskEvent(robot='r', plan_id=plan(1))
    begin = zstd(fleet(EVENT) + message(1, serialize_message(one)))
    definition = topic(name, find_definition(name).text, number=2)
    state = message(2, serialize_message(SchedulerState(engine='e', kv_tokens=2**64 - 1)))
    return file(begin, zstd(definition + filled(iter(lambda: state, None), SOME)), sound())


def many_segments() -> bytes:
    name = 'timely_llm_ros/msg/SkillSegment'
    begin = zstd(fleet(EVENT) + message(1, serialize_message(TaskEvent(plan_id=plan(1)))))
    definition = topic(name, find_definition(name).text, number=2)

    def records() -> Iterator[bytes]:
        data = bytearray(serialize_message(SkillSegment(plan_id=plan(1), index=0x7E7E7E7E)))
        place = data.index(b'\x7e\x7e\x7e\x7e')
        for number in range(10**6):
            data[place : place + 4] = struct.pack('<I', number)
            yield message(2, bytes(data), number)

    return file(begin, zstd(definition + filled(records(), 2 * SOME)), sound())


BOMBS: tuple[Callable[[], bytes], ...] = (
    zstd_frame_beyond_its_claim, zstd_frame_without_a_size, lz4_frame_beyond_its_claim,
    chunks_within_the_limit, tiny_records, long_message_index, many_topics,
    topics_with_long_metadata, many_notes, long_definitions, long_text, endless_sequence,
    endless_fixed_array, nested_arrays, many_tasks, many_tasks_with_scenes, long_instructions,
    many_states, many_segments,
)  # fmt: skip
