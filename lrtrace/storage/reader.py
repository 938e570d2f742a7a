"""Reads traces, also those whose recorder was killed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcap.opcode import Opcode
from mcap.records import Channel, Message, Metadata, Schema

from lrtrace.storage.decoder import MAX_FIELDS, Decoder
from lrtrace.storage.mcap_records import records
from lrtrace.storage.metadata import CUSTOM_DATA
from lrtrace.storage.trace_files import find_files
from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from lrtrace.storage.mcap_records import Record

MAX_TOPICS_BYTES = 24_000_000
"""Topics and definitions of a file that take more than about this much memory are left out."""

MOST_DAMAGES = 8
"""So many different things that are wrong with a trace are named."""

MAX_NOTES_BYTES = 200_000
"""Notes on a run that take more are left out, file by file."""

KEPT_BYTES = 60_000_000
KEPT_PER_BYTE = 6
"""What is kept of a trace takes about the first, or this many bytes per byte of its files."""

_MESSAGES = frozenset({Opcode.CHUNK, Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE})
_NOTES = frozenset({Opcode.METADATA})


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
    _size: int = 0
    _fields: int = 0
    _decoders: dict[int, tuple[Schema, Decoder]] = field(default_factory=dict)

    def learn(self, record: Schema | Channel) -> bool:
        """Take note of it; return whether there was room for it."""
        known: dict[int, Any] = self.schemas if isinstance(record, Schema) else self.channels
        # Some writers repeat themselves in every chunk.
        if known.get(record.id) == record:
            return True
        if isinstance(record, Schema):
            self._size += 2000 + 4 * len(record.name) + len(record.data)
        else:
            texts = (record.topic, *record.metadata, *record.metadata.values())
            self._size += 2000 + sum(60 + 2 * len(text) for text in texts)
        if self._size > MAX_TOPICS_BYTES:
            return False
        known[record.id] = record
        return True

    def name(self, message: Message) -> str:
        return str(self.channels[message.channel_id].topic)

    def schema(self, message: Message) -> Schema:
        return self.schemas[self.channels[message.channel_id].schema_id]

    def decoder(self, schema: Schema) -> Decoder:
        known = self._decoders.get(schema.id)
        if known is None or known[0] is not schema:
            if schema.encoding != 'ros2msg':
                raise ValueError(f'encoding {schema.encoding[:80]!r}: expected ros2msg')
            text = schema.data.decode()
            known = schema, Decoder(schema.name, text, max_fields=max(MAX_FIELDS - self._fields, 0))
            self._fields += known[1].size
            self._decoders[schema.id] = known
        return known[1]


@dataclass(slots=True)
class Room:
    """How much of a trace is kept in memory (bytes, roughly), so that no trace fills it."""

    left: int

    def take(self, size: int) -> bool:
        """Take some; return whether it was still there."""
        self.left -= size
        return self.left >= 0

    @property
    def damage(self) -> str:
        """What to say where there was not enough."""
        return 'what takes more memory than traces of its size do is left out'


class Trace:
    """A trace on disk: a rosbag2 folder or an MCAP file.

    It needs neither footers nor a ``metadata.yaml``: what a killed recorder left is read up to its
    last whole chunk, and :attr:`damage` says so. Unsound chunks are left out.

    Raises:
        TraceError: There is no trace, or it is not made of MCAP files.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._damages: list[str] = []
        self.cut_off = False
        """Whether the latest reading found a file that was never closed."""
        found = find_files(self.path)
        self.files = found.paths
        self._empty = found.empty
        self.ending = found.ending or 'it is still recorded, or its recorder was killed'
        """Why a file of it may have no end."""
        self.custom_data = dict(found.custom_data) or self._recorded_custom_data()

    @property
    def damage(self) -> str:
        """What the latest reading found wrong with the files; empty if nothing."""
        return '; '.join(self._damages)

    @property
    def size_bytes(self) -> int:
        """Of its files."""
        return sum(file.stat().st_size for file in self.files)

    def room(self) -> Room:
        """Return how much of it may be kept in memory."""
        return Room(max(KEPT_BYTES, KEPT_PER_BYTE * self.size_bytes))

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
        seen: dict[str, tuple[Schema | None, Channel]] = {}
        for _ in self._raw_messages(seen):
            pass
        return [(schema, channel) for schema, channel in seen.values() if schema is not None]

    def summary(self) -> TraceSummary:
        """Count the messages without decoding them.

        Raises:
            TraceError: A file cannot be read at all.
        """
        found = TraceSummary(size_bytes=self.size_bytes)
        seen: dict[str, tuple[Schema | None, Channel]] = {}
        for _, topics, message in self._raw_messages(seen):
            if not found.counts:
                found.start_ns = message.log_time
            found.counts[topics.name(message)] += 1
            found.start_ns = min(found.start_ns, message.log_time)
            found.end_ns = max(found.end_ns, message.log_time)
        for name, (schema, _) in seen.items():
            found.counts.setdefault(name, 0)
            found.types[name] = schema.name if schema else ''
        found.damage = self.damage
        return found

    def _raw_messages(
        self, seen: dict[str, tuple[Schema | None, Channel]] | None = None
    ) -> Iterator[tuple[Path, _Topics, Message]]:
        """Yield the messages with what is known of their topics; ``seen`` gets every topic."""
        self._damages, self.cut_off = [], bool(self._empty)
        if self._empty:
            self._note(f'{self._empty}: empty, {self.ending}')
        for file in self.files:
            topics = _Topics()
            for record in self._records(file, _MESSAGES):
                if isinstance(record, Message):
                    if self._known(file, topics, record):
                        yield file, topics, record
                elif isinstance(record, Metadata) or not topics.learn(record):
                    self._note(f'{file.name}: topics of more than {MAX_TOPICS_BYTES} bytes')
                elif seen is not None and isinstance(record, Channel):
                    seen.setdefault(record.topic, (topics.schemas.get(record.schema_id), record))

    def _known(self, file: Path, topics: _Topics, message: Message) -> bool:
        channel = topics.channels.get(message.channel_id)
        if channel is not None and channel.schema_id in topics.schemas:
            return True
        self._note(f'{file.name}: a message of channel {message.channel_id}, which has no type')
        return False

    def _records(self, file: Path, wanted: Collection[int]) -> Iterator[Record]:
        """Yield a file's records of some kinds in order."""
        try:
            with file.open('rb') as stream:
                try:
                    yield from records(
                        stream,
                        file.stat().st_size,
                        wanted,
                        lambda why: self._note(f'{file.name}: {why}'),
                    )
                except EOFError:
                    self.cut_off = True
                    self._note(f'{file.name}: ends without a footer, {self.ending}')
        except OSError as err:
            raise TraceError(f'{file}: cannot be read: {err.strerror}') from err

    def _note(self, damage: str) -> None:
        if len(self._damages) <= MOST_DAMAGES and damage not in self._damages:
            full = len(self._damages) == MOST_DAMAGES
            self._damages.append('and more' if full else damage)

    def _recorded_custom_data(self) -> dict[str, str]:
        """Return the notes in the files themselves; later records win."""
        found: dict[str, str] = {}
        for file in self.files:
            room = Room(MAX_NOTES_BYTES)
            for record in self._records(file, _NOTES):
                if isinstance(record, Metadata) and record.name == CUSTOM_DATA:
                    size = sum(
                        100 + len(name) + len(value) for name, value in record.metadata.items()
                    )
                    if room.take(size):
                        found |= record.metadata
        return found


def _decoded(file: Path, topics: _Topics, message: Message) -> Any:
    schema = topics.schema(message)
    try:
        return topics.decoder(schema)(message.data)
    except (ValueError, RecursionError) as err:
        raise TraceError(
            f'{file}: a {schema.name[:80]} that does not fit its definition: {err}'
        ) from err
